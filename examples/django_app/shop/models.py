"""The shop's own tables, in the database in which the package has its own."""

from django.db import models


class Order(models.Model):
    """What somebody has bought."""

    id = models.BigAutoField(primary_key=True)
    item = models.TextField()
    customer = models.TextField()
    wishes = models.JSONField(default=dict)

    class Meta:
        """See Django."""

        db_table = "shop_order"

    def __str__(self) -> str:
        return f"order {self.pk}"
