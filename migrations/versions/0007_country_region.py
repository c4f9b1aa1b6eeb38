"""The countries of ISO 3166-1, which routes name: 249 rows, as they are for everybody.

Safe while workers run: a new table, which no worker of the version before knows.
"""

import sqlalchemy as sa
from alembic import op

from messaging.sms.regions import countries

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    country_region = op.create_table(
        "country_region",
        sa.Column("code", sa.CHAR(length=2), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("alpha3", sa.CHAR(length=3), nullable=False),
        sa.Column("dial_code", sa.String(length=10), server_default="", nullable=False),
        sa.Column("currency", sa.CHAR(length=3), nullable=True),
        sa.Column("continent", sa.CHAR(length=2), nullable=False),
        sa.PrimaryKeyConstraint("code", name=op.f("pk_country_region")),
        sa.UniqueConstraint("alpha3", name=op.f("uq_country_region_alpha3")),
    )
    names = country_region.c.keys()
    rows = [{name: getattr(country, name) for name in names} for country in countries().values()]
    op.bulk_insert(country_region, rows)


def downgrade() -> None:
    op.drop_table("country_region")
