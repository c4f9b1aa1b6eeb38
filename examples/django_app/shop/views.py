"""Orders are taken: the order and its mail are one transaction of Django's."""

import json

from django.db import connection, transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_GET, require_POST

import messaging
from shop.models import Order

#: What there is to buy.
STOCK = {"lamp", "chair"}


class OutOfStock(Exception):
    """There is none left."""


@require_POST
def take_order(request: HttpRequest) -> JsonResponse:
    """Take an order; the customer's mail goes out once it is committed, and never without it."""
    given = json.loads(request.body)
    try:
        with transaction.atomic():
            order = Order.objects.create(item=given["item"], customer=given["customer"], wishes=given.get("wishes", {}))
            mail_id = confirm(order)
            if order.item not in STOCK:
                # Too late on purpose: what was accepted above is undone with the order.
                raise OutOfStock
    except OutOfStock:
        return JsonResponse({"error": "out of stock"}, status=409)
    except messaging.MessageRejected as exc:
        return JsonResponse({"error": str(exc)}, status=422)
    return JsonResponse({"order_id": order.pk, "mail_id": mail_id}, status=201)


def confirm(order: Order) -> int:
    """Accept the customer's mail in the transaction that Django's connection is in; answers its record's id."""
    with messaging.session_over(connection.connection) as session:
        return messaging.send_mail(
            to=[order.customer],
            subject=f"Your order {order.pk}",
            text_body=f"Thank you for ordering a {order.item}.",
            session=session,
        )


@require_GET
def list_orders(_: HttpRequest) -> JsonResponse:
    """All orders, with what Django reads of its own columns."""
    return JsonResponse({"orders": list(Order.objects.values("id", "item", "wishes"))})
