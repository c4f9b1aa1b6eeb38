"""The HTTP application: what providers and recipients call from outside, and the probes of whoever runs it."""
