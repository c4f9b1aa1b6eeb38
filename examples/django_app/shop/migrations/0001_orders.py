"""Orders."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """The table of orders."""

    initial = True
    operations = (
        migrations.CreateModel(
            "Order",
            fields=[
                ("id", models.BigAutoField(primary_key=True)),
                ("item", models.TextField()),
                ("customer", models.TextField()),
                ("wishes", models.JSONField(default=dict)),
            ],
            options={"db_table": "shop_order"},
        ),
    )
