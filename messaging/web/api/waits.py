"""`/mail/messages/{id}/wait`, `/sms/messages/{id}/wait`: the outcome for a caller who cannot go on without it."""

import asyncio
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from messaging import api
from messaging.access.roles import Permission
from messaging.api import MailStatus, SmsStatus
from messaging.clock import boot_seconds
from messaging.delivery.status import FINAL_STATUSES
from messaging.delivery.waiting import pauses
from messaging.web.api.mail_messages import MailStatusShown
from messaging.web.api.resource import Resource, needs
from messaging.web.api.shapes import Id
from messaging.web.api.sms_messages import SmsStatusShown

routes = Resource("waiting")

#: Proxies give up on a silent answer after a minute.
MAX_WAIT_SECONDS = 55

_MAY_LOOK = [needs(Permission.SEND, Permission.READ)]


class WaitQuery(BaseModel):
    """How long."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    timeout_seconds: float = Field(30, ge=0, le=MAX_WAIT_SECONDS)


@routes.get("/mail/messages/{message_id}/wait", dependencies=_MAY_LOOK)
async def wait_for_mail(message_id: Id, query: Annotated[WaitQuery, Query()]) -> MailStatusShown:
    """Where a mail stands once it is SENT, FAILED or DEAD_LETTER, or the time is up: look at `status`."""
    return MailStatusShown.model_validate(await _waited(message_id, "mail", query.timeout_seconds))


@routes.get("/sms/messages/{message_id}/wait", dependencies=_MAY_LOOK)
async def wait_for_sms(message_id: Id, query: Annotated[WaitQuery, Query()]) -> SmsStatusShown:
    """Where a text message stands once it is SENT, FAILED or DEAD_LETTER, or the time is up: look at `status`."""
    return SmsStatusShown.model_validate(await _waited(message_id, "sms", query.timeout_seconds))


async def _waited(record_id: int, channel: str, timeout_seconds: float) -> MailStatus | SmsStatus:
    """As `api.wait`, without holding a thread."""
    for pause in pauses(timeout_seconds, boot_seconds):
        found = await run_in_threadpool(api.status, record_id, channel=channel)
        if found.status in FINAL_STATUSES:
            return found
        await asyncio.sleep(pause)
    return await run_in_threadpool(api.status, record_id, channel=channel)
