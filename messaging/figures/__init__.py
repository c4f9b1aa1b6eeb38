"""What the dashboard shows: outcomes by the minute, gathered from the attempt log, and how the lines stand."""
