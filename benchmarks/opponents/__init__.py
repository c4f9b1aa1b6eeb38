"""What we are measured against, each a process of its own that is told how much to send."""
