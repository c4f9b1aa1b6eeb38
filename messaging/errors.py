"""Every exception this package raises.

MessagingError
  MessageRejected(ValueError)   acceptance refused the input; raised before anything is written
  ConfigRejected(ValueError)    a server's configuration cannot be saved
    TemplateRejected            a template cannot be saved
  EntryRejected(ValueError)     what cannot be on the suppression list, or be said of a dead letter
  FileRejected(ValueError)      a file of templates, seeds or entries cannot be used
  IdempotencyKeyBusy            another open transaction holds the key
  PreparationError(marker)      no server, unreadable secret, body too large
  DeliveryError(category)       the other side refused or vanished
  ReceiveError                  a mailbox cannot be fetched, or a folder not go on
    NoDefaultMailbox            none was named, and none is a default
  ReceiptUnreadable(ValueError) a provider's receipt or inbound message cannot be read
  StateError                    a requeue of a Sent, Sending or cancelled record
  RecordNotFound(LookupError)   no record or configuration with this id in the tenant
  TenantContextMissing          a read or write of tenant rows with no tenant set
  UserContextMissing            somebody's own inbox was asked for with no user set
  RecipientMismatch             a user marks another's notification
  PasswordsBusy                 more passwords at once than this process looks at
  TenantMismatch                a write of another tenant's or the platform's rows, a look at another's quota
ConfigurationError              wrong settings or schema; outside the tree, so nothing that handles a failed send
                                can swallow it
"""

from messaging.category import MARKER_CATEGORY, ErrorCategory, MarkerCode

#: Longest part of a refused value that an error repeats.
MAX_SHOWN_CHARS = 200


def shown_value(value: object) -> str:
    """A refused value as an error repeats it."""
    try:
        shown = repr(value)
    except Exception:  # noqa: BLE001 - the value is anybody's; a number of 5,000 digits raises too
        shown = f"<{type(value).__name__}>"
    return shown if len(shown) <= MAX_SHOWN_CHARS else shown[:MAX_SHOWN_CHARS] + "…"


class MessagingError(Exception):
    """Root of all failures a caller may handle."""


class MessageRejected(MessagingError, ValueError):
    """Acceptance refused a request; nothing was written and the caller's transaction is still usable."""

    def __init__(self, channel: str, field: str, value: object, reason: str, *, index: int | None = None) -> None:
        self.channel = channel
        #: Name of the request's field that was refused.
        self.field = field
        #: The refused entry itself (of a list: the one entry).
        self.value = value
        #: Position in the batch, from 0; None for a single request.
        self.index = index
        self.reason = reason
        super().__init__(channel, field, value, reason, index)

    def __str__(self) -> str:
        shown = shown_value(self.value)
        where = "" if self.index is None else f" item {self.index}:"
        return f"{self.channel}:{where} {self.field} {self.reason}: {shown}"


class ConfigRejected(MessagingError, ValueError):
    """A server's configuration cannot be saved; nothing was written. A secret is neither kept here nor shown."""

    def __init__(self, field: str, value: object, reason: str, *, is_secret: bool = False) -> None:
        self.field = field
        #: What was refused; None for a secret.
        self.value = None if is_secret else value
        self.reason = reason
        shown = "" if is_secret else f" is {str(value)[:MAX_SHOWN_CHARS]!r}:"
        super().__init__(f"{field}{shown} {reason}")


class TemplateRejected(ConfigRejected):
    """A template cannot be saved: a field does not fit, or its source does not compile. Nothing was written."""

    def __init__(self, field: str, value: object, reason: str, *, line: int | None = None) -> None:
        super().__init__(field, value, reason)
        #: Of the field's source, from 1; None when no line is to blame.
        self.line = line

    def __str__(self) -> str:
        if self.line is not None:
            return f"{self.field}, line {self.line}: {self.reason}"
        return f"{self.field} is {shown_value(self.value)}: {self.reason}"


class EntryRejected(MessagingError, ValueError):
    """What cannot be an entry of the suppression list, lift one, or be said of a dead letter; nothing was written."""

    def __init__(self, field: str, value: object, reason: str) -> None:
        self.field = field
        self.value = value
        self.reason = reason
        super().__init__(f"{field} is {shown_value(value)}: {reason}")


class FileRejected(MessagingError, ValueError):
    """A file of templates, seeds or entries cannot be used; nothing was written. No secret is kept here or shown."""

    def __init__(self, file: str, reason: str, *, key: str | None = None, field: str | None = None) -> None:
        #: Path within the folder that was read, or of the file itself.
        self.file = file
        #: The seed's key, or the template's code; None when the file does not say.
        self.key = key
        #: The field that is to blame; None when the file as a whole is.
        self.field = field
        #: Names field and value, but for a secret.
        self.reason = reason
        super().__init__(f"{file}{'' if key is None else f' ({key})'}: {reason}")


class IdempotencyKeyBusy(MessagingError):
    """Another transaction is writing a record with the same idempotency key; nothing was written.

    It did not end within the lock time-out, or (from REPEATABLE READ on) ended after the caller's snapshot was taken.
    The caller's transaction is still usable.
    """

    def __init__(self) -> None:
        super().__init__("another transaction is writing a record with the same idempotency key")


class PreparationError(MessagingError):
    """The record cannot be prepared; the marker says why and its category what becomes of the record."""

    def __init__(self, marker: MarkerCode, message: str) -> None:
        self.marker = marker
        self.category = MARKER_CATEGORY[marker]
        super().__init__(message)


class DeliveryError(MessagingError):
    """The other side refused, or vanished."""

    def __init__(
        self,
        category: ErrorCategory,
        code: str,
        text: str,
        *,
        retry_after_seconds: float | None = None,
        is_uncertain: bool = False,
    ) -> None:
        self.category = category
        #: What `error_code` will say, e.g. `SMTP_550_5.1.1`.
        self.code = code
        #: What `error_message` will say: stage, refused address if any, the other side's words.
        self.text = text
        #: A wait the other side asked for; None when it asked for none.
        self.retry_after_seconds = retry_after_seconds
        #: Whether the message may have been delivered although no reply said so.
        self.is_uncertain = is_uncertain
        super().__init__(f"{code}: {text}")


class ReceiveError(MessagingError):
    """A mailbox cannot be reached or read; the text names host and port, never a credential."""


class NoDefaultMailbox(ReceiveError):
    """No mailbox was named, and neither the tenant nor the platform has a default one."""

    def __init__(self) -> None:
        super().__init__("no receiving mail server: neither this tenant nor the platform has a default mailbox")


class ReceiptUnreadable(MessagingError, ValueError):
    """What a provider (or somebody else) sent to a receipt or inbound address has not the provider's shape."""

    def __init__(self, provider: str, reason: str) -> None:
        super().__init__(f"{provider}: {reason}")


class StateError(MessagingError):
    """The record's state does not allow what was asked."""


class ChangedMeanwhile(StateError):
    """Somebody else changed the row after it was looked at; nothing was changed by this."""


class RecordNotFound(MessagingError, LookupError):
    """No send record, or no configuration, with this id is visible to the current tenant."""


class TenantContextMissing(MessagingError):
    """Tenant rows were read or written with no tenant set and outside `all_tenants()`."""


class TenantMismatch(MessagingError):
    """A write, or a question about quotas, named what is another tenant's or the platform's."""


class UserContextMissing(MessagingError):
    """What belongs to a person was asked for with no `user_id` in the context."""


class RecipientMismatch(MessagingError):
    """A user marked a notification of another user of the tenant."""


class PasswordsBusy(MessagingError):
    """This process looks at as many passwords as it may at once; the same will do a moment later."""

    def __init__(self) -> None:
        super().__init__("too many passwords are being looked at; come again")


class ConfigurationError(Exception):
    """A setting, the schema or the environment makes a start impossible; the text says which and what is allowed."""
