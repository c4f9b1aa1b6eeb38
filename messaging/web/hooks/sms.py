"""`/hooks/sms/{provider}/{token}` and `.../inbound`: what SMS providers tell us (`sms.md` section 8).

The token says whose configuration it is, the signature that the provider made the request. The address that a signature
covers is the configured public one: what a proxy or a caller says of it is not asked.
"""

import logging
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Response
from sqlalchemy import Engine

from messaging.clock import boot_seconds
from messaging.sms.callbacks import (
    Account,
    Callback,
    CallbackUncheckable,
    find_account,
    is_forged,
    take_inbound,
    take_receipt,
)
from messaging.sms.providers import registry
from messaging.web.calls import Call, CallReader
from messaging.webhooks.announcing import EndpointWatch

logger = logging.getLogger(__name__)

#: How old what is known of who listens to webhooks may be.
ENDPOINTS_SECONDS = 1.0


class SmsHooks:
    """Opens what providers send: whose it is, and that it is theirs."""

    def __init__(self, engine: Engine, public_base_url: str | None) -> None:
        self._engine = engine
        self._base_url = public_base_url

    def open(self, label: str, token: str, call: Call) -> tuple[Account, Callback]:
        """The configuration and what it is told.

        Raises: HTTPException: 404 for what is nobody's, 405, 403 for a wrong signature, 503 for what cannot be checked.
        """
        provider = registry.by_label(label)
        if provider is None:
            raise HTTPException(404)
        if call.method != "POST" and not provider.receives_by_get:
            raise HTTPException(405, headers={"Allow": "POST"})
        url = None if self._base_url is None else self._base_url + call.target
        callback = Callback(url, call.headers, call.raw_query, call.query, call.body)
        try:
            account = find_account(self._engine, provider, token)
            if account is None:
                raise HTTPException(404)
            has_wrong_signature = is_forged(account, callback)
        except CallbackUncheckable as exc:
            logger.error("requests of a provider cannot be checked", extra={"provider": label, "reason": str(exc)})
            raise HTTPException(503) from exc
        if has_wrong_signature:
            logger.warning("wrong signature", extra={"provider": label, "provider_config_id": account.config.id})
            raise HTTPException(403)
        return account, callback


def router(engine: Engine, public_base_url: str | None, read_call: CallReader) -> APIRouter:
    """The two addresses of each configuration."""
    routes = APIRouter(prefix="/hooks/sms/{provider}/{token}")
    hooks = SmsHooks(engine, public_base_url)
    endpoints = EndpointWatch(ttl_seconds=ENDPOINTS_SECONDS, ticker=boot_seconds)
    methods = ["GET", "POST"]

    @routes.api_route("", methods=methods)
    def receipts(provider: str, token: str, call: Annotated[Call, Depends(read_call)]) -> Response:
        account, callback = hooks.open(provider, token, call)
        take_receipt(engine, account, callback, endpoints)
        return _received(account)

    @routes.api_route("/inbound", methods=methods)
    def inbound(provider: str, token: str, call: Annotated[Call, Depends(read_call)]) -> Response:
        account, callback = hooks.open(provider, token, call)
        take_inbound(engine, account, callback)
        return _received(account)

    return routes


def _received(account: Account) -> Response:
    """What the provider takes as "do not send it again"."""
    status, media_type, body = account.provider.receipt_reply()
    return Response(body, status, media_type=media_type)
