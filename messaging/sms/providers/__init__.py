"""Providers of text messages: one protocol, one file for each of them, a registry."""
