"""Sandbox mode: what would be sent is kept to be looked at, goes elsewhere, or goes to listed recipients only."""
