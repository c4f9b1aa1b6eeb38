"""Addresses that others call: a provider's receipts and inbound messages, and links for leaving a mailing list."""
