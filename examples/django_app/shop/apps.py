"""The package is set up when Django is."""

from django.apps import AppConfig


class ShopConfig(AppConfig):
    """See Django."""

    name = "shop"

    def ready(self) -> None:
        """Refuse wrong settings at the start, and not at the first order."""
        import messaging

        messaging.configure()
