"""`messaging ...`: parse, one call, answer. Bad input is one line on standard error, and exit 2; no traceback.

A file is a group of commands. Heavy modules are imported by the command that needs them, so that `--help` and mistakes
answer at once. Workers, beat and Flower are Celery's programs: their commands replace this process by
`celery -A tasks ...`.
"""

from messaging.cli.entry import main, run

__all__ = ["main", "run"]
