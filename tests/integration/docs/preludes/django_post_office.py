"""A Django with django-post_office in the same database: a template, and mails in its queue."""

import os

import django
from django.conf import settings as django_settings
from django.core.management import call_command
from sqlalchemy.engine import make_url

_url = make_url(os.environ["MESSAGING_DATABASE_URL"])
django_settings.configure(
    INSTALLED_APPS=["post_office"],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    USE_TZ=True,
    MEDIA_ROOT=os.getcwd(),
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates"}],
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": _url.database,
            "USER": _url.username,
            "PASSWORD": _url.password,
            "HOST": _url.host,
            "PORT": _url.port,
        }
    },
)
django.setup()
call_command("migrate", verbosity=0)

from django.core.files.base import ContentFile  # noqa: E402
from post_office import mail  # noqa: E402
from post_office.models import EmailTemplate  # noqa: E402

EmailTemplate.objects.create(
    name="welcome", subject="Welcome, {{ name }}", content="Hello {{ name }}", html_content="<p>Hello {{ name }}</p>"
)
mail.send(
    "ann@example.org",
    "Shop <orders@shop.example>",
    template="welcome",
    context={"name": "Ann"},
    render_on_delivery=True,
    headers={"Reply-To": "help@shop.example"},
    attachments={"terms.txt": ContentFile(b"Terms")},
)
mail.send("bob@example.org", "Shop <orders@shop.example>", subject="Plain", message="Hello", priority="low")
