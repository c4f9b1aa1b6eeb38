"""Django on the database of `MESSAGING_DATABASE_URL`."""

import os
import secrets

from sqlalchemy.engine import make_url

_url = make_url(os.environ["MESSAGING_DATABASE_URL"])

# Nothing of this shop is signed; one that has sessions keeps its key.
SECRET_KEY = secrets.token_urlsafe(50)
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
ROOT_URLCONF = "shop.urls"
INSTALLED_APPS = ["shop.apps.ShopConfig"]
MIDDLEWARE: list[str] = []
USE_TZ = True
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _url.database,
        "USER": _url.username,
        "PASSWORD": _url.password,
        "HOST": _url.host,
        "PORT": _url.port,
    }
}
