"""One engine for all channels: dispatch, claim, attempt, outcome, sweep, requeue, cancel. Knows no SMTP and no provider."""
