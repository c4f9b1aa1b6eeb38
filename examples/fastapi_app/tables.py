"""The shop's own tables, beside those of the package."""

from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class ShopBase(DeclarativeBase):
    """All tables of the shop."""


class Order(ShopBase):
    """What somebody has bought."""

    __tablename__ = "shop_order"

    id: Mapped[int] = mapped_column(primary_key=True)
    item: Mapped[str]
    customer: Mapped[str]


class Clerk(ShopBase):
    """Who packs it."""

    __tablename__ = "shop_clerk"

    id: Mapped[int] = mapped_column(primary_key=True)
    #: What the clerk's browser sends; a shop for real signs people in.
    key: Mapped[str] = mapped_column(unique=True)
