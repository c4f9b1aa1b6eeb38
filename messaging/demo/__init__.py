"""What `messaging demo` runs: the parts as child processes that never outlive it, a shop's mails, a live table."""
