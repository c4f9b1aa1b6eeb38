"""Actions on all records that fit a filter: a job of its own, in steps, with progress and a stop."""
