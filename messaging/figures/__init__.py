"""What the dashboard shows: how attempts ended, counted by a tick over the attempt log, and how the lines stand."""
