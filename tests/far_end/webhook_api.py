"""An application that is told events: it checks each signature with the standard's own library, keeps what is new."""

from dataclasses import dataclass
from typing import Any

from standardwebhooks import Webhook, WebhookVerificationError

from tests.far_end.provider_server import Reply, Request


@dataclass(frozen=True)
class Heard:
    """One event, as the application understood it."""

    id: str
    type: str
    data: dict[str, Any]


class WebhookApi:
    """Answers 204 to what is signed with its secret, 401 to everything else."""

    def __init__(self, secret: str) -> None:
        self.secret = secret
        #: Every call that was signed, also of an event that was heard before.
        self.calls: list[Heard] = []

    @property
    def taken(self) -> list[Any]:
        """Events, each once."""
        return list({one.id: one for one in self.calls}.values())

    def answer(self, request: Request) -> Reply:
        try:
            event = Webhook(self.secret).verify(request.body, dict(request.headers))
        except WebhookVerificationError:
            return Reply(401)
        if request.method != "POST" or request.media_type != "application/json":
            return Reply(415)
        self.calls.append(Heard(request.headers["webhook-id"], event["type"], event["data"]))
        return Reply(204)
