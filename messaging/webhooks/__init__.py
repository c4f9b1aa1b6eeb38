"""The third channel: tells an application's own address what became of its messages, signed (Standard Webhooks)."""
