"""A shop on FastAPI and an `AsyncSession`: an order, its mail and its notification hold together or not at all.

Our HTTP API is mounted below `/messaging`, where the shop's clerks are known by the shop's own keys.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Request
from pydantic import BaseModel
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session

import messaging
from examples.fastapi_app.clerks import ShopKeys
from examples.fastapi_app.tables import Clerk, Order, ShopBase
from messaging.settings import Settings, load_settings
from messaging.web.app import create_app

#: What there is to buy.
STOCK = {"lamp", "chair"}


class OrderGiven(BaseModel):
    """An order as a customer sends it."""

    item: str
    customer: str


class OrderTaken(BaseModel):
    """The order's number, and the record that its mail goes by."""

    order_id: int
    mail_id: int


async def session_of(request: Request) -> AsyncIterator[AsyncSession]:
    """One transaction a request: rolled back unless the handler commits."""
    async with request.app.state.sessions() as session:
        yield session


def create_shop(settings: Settings | None = None) -> FastAPI:
    """The application; None of settings: those of the environment."""
    chosen = settings or load_settings()
    shared = messaging.configure(chosen)
    engine = create_async_engine(chosen.database_url)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with engine.begin() as connection:
            await connection.run_sync(ShopBase.metadata.create_all)
        yield
        await engine.dispose()

    shop = FastAPI(title="shop", lifespan=lifespan)
    shop.state.sessions = async_sessionmaker(engine, expire_on_commit=False)
    shop.post("/orders", status_code=201)(take_order)
    shop.mount("/messaging", create_app(chosen, shared.engine, authenticator=ShopKeys(shared.engine)))
    return shop


async def take_order(given: OrderGiven, session: Annotated[AsyncSession, Depends(session_of)]) -> OrderTaken:
    """Take an order: the customer gets a mail, every clerk a notification, once all of it is committed."""
    order = Order(item=given.item, customer=given.customer)
    session.add(order)
    await session.flush()
    # The calls of the package are plain functions; the session runs them on its own connection.
    mail_id = await session.run_sync(confirm, order)
    if given.item not in STOCK:
        # Too late on purpose: what was accepted above is undone with the order.
        raise HTTPException(409, "out of stock")
    await session.commit()
    return OrderTaken(order_id=order.id, mail_id=mail_id)


def confirm(session: Session, order: Order) -> int:
    """Tell the customer and the clerks; answers the mail's id."""
    for clerk_id in session.scalars(select(Clerk.id)):
        messaging.send_inbox(
            recipient_id=clerk_id,
            title="To be packed",
            content=f"Order {order.id}: {order.item}",
            source_model="Order",
            source_id=order.id,
            session=session,
        )
    return messaging.send_mail(
        to=[order.customer],
        subject=f"Your order {order.id}",
        text_body=f"Thank you for ordering a {order.item}.",
        session=session,
    )
