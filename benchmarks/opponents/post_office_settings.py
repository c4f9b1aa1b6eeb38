"""Django settings of the django-post-office opponent, tuned for speed; database and server come from the environment.

Tuned: a big batch (a process pool is forked for each), 8 threads a process, only failures logged, no template.
"""

import os
from urllib.parse import urlsplit

_database = urlsplit(os.environ["BENCH_DATABASE_URL"])

SECRET_KEY = "benchmark"
INSTALLED_APPS = ["post_office"]
USE_TZ = True
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _database.path.removeprefix("/"),
        "USER": _database.username,
        "PASSWORD": _database.password,
        "HOST": _database.hostname,
        "PORT": _database.port,
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates"}]
CACHES = {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}}
EMAIL_HOST = "127.0.0.1"
EMAIL_PORT = int(os.environ["BENCH_SMTP_PORT"])
POST_OFFICE = {
    "BACKENDS": {"default": "django.core.mail.backends.smtp.EmailBackend"},
    "BATCH_SIZE": int(os.environ.get("BENCH_BATCH_SIZE", "1000")),
    "THREADS_PER_PROCESS": int(os.environ.get("BENCH_THREADS", "8")),
    "LOG_LEVEL": 1,
    "SENDING_ORDER": ["id"],
}
# With a handler of ours post_office does not add its own, which writes lines for each batch.
LOGGING = {
    "version": 1,
    "handlers": {"none": {"class": "logging.NullHandler"}},
    "loggers": {"post_office": {"handlers": ["none"], "level": "ERROR", "propagate": False}},
}
