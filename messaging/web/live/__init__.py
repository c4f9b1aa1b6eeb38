"""What is pushed to browsers as it happens: one connection listens to the database, and everybody here hears of it."""
