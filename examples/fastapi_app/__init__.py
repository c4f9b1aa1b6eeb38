"""A shop on FastAPI."""
