"""The Celery application and its tasks: a few lines each. All logic lies in `messaging` and runs without Celery."""

from tasks.app import app as celery

__all__ = ["celery"]
