"""Notifications inside the application: written in the caller's transaction, read by the person they are for."""
