"""What is deleted after which age, in small batches that disturb nobody. Off until an age is set."""
