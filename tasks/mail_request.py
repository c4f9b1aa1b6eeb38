"""A mail asked for by another service -> `send_mail`. No rule is here: see `messaging.mail.mail_request`.

Its message is the only one with content: nothing of it is shown in Flower, in a log, or in the text of an error.
"""

from typing import Any

from celery.exceptions import Reject
from celery.worker.request import Request

from messaging.mail.mail_request import RequestGivenBack, RequestRefused, RequestRepeats, read_request
from tasks import worker
from tasks.app import app
from tasks.poison import RedeliveredTooOften, WrongArguments


class SilentRequest(Request):
    """What Celery knows of a running task, without its arguments: Flower shows these of active tasks, events or not."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._argsrepr = self._kwargsrepr = ""

    def info(self, safe: bool = False) -> Any:
        """For `inspect active` and its like."""
        return {**super().info(safe=safe), "args": [], "kwargs": {}}

    def cancel(self, *_: Any, **__: Any) -> None:
        """After a lost connection. A thread cannot be ended; when the message comes again, its mail is there."""


@app.task(name="messaging.mail_request", bind=True, Request=f"{__name__}:{SilentRequest.__name__}")
def mail_request(
    self: Any,
    to: Any = None,
    template_code: Any = None,
    variables: Any = None,
    scope: Any = None,
    tenant_id: Any = None,
) -> dict[str, int]:
    """Accept the mail in its tenant; answers whether it was accepted or, without recipient or template, ignored."""
    try:
        request = read_request(to, template_code, variables, scope, tenant_id, task_id=self.request.id)
        return worker.process().mail_requests.handle(request)
    except RequestRefused as exc:
        raise WrongArguments(str(exc)) from None
    except RequestRepeats as exc:
        raise RedeliveredTooOften(str(exc)) from None
    except RequestGivenBack as exc:
        raise Reject(str(exc), requeue=True) from None
