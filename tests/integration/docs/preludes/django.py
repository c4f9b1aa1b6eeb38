"""The shop of examples/, with its tables made."""

import os
import sys
from pathlib import Path

import django
from django.core.management import call_command
from sqlalchemy import create_engine, text

import messaging

root = Path(messaging.__file__).resolve().parents[1]
sys.path.insert(0, str(root / "examples" / "django_app"))
os.environ["DJANGO_SETTINGS_MODULE"] = "shop.settings"
with create_engine(os.environ["MESSAGING_DATABASE_URL"]).begin() as connection:
    connection.execute(text("DROP TABLE shop_order"))
django.setup()
call_command("migrate", verbosity=0)
