"""One engine for all channels, from dispatch to outcome, sweep and requeue. Knows no SMTP and no provider."""
