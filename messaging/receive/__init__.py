"""Inbound mail, from a mailbox to a stored message that is tied to the record it answers."""
