"""Why a send stopped: the error categories and the marker codes of our own refusals, one line of meaning per value.

Which facts lead to which category is decided by tables beside the transports; what a category means for the record is
decided by `messaging.delivery.retry`.
"""

from enum import StrEnum


class ErrorCategory(StrEnum):
    """What a failure says about trying again."""

    #: The other side is busy, full or away for now: the same bytes may pass later.
    TRANSIENT = "TRANSIENT"
    #: The other side limits the rate: as TRANSIENT, but never sooner than the quota floor.
    QUOTA = "QUOTA"
    #: Nothing known explains the failure: retried like TRANSIENT, within the same budget.
    UNKNOWN = "UNKNOWN"
    #: The other side refused for good.
    PERMANENT = "PERMANENT"
    #: The message or an address can never be accepted as it is.
    INVALID_INPUT = "INVALID_INPUT"
    #: An operator must act: credentials, configuration or an account.
    AUTH = "AUTH"

    @property
    def is_retryable(self) -> bool:
        """Whether another attempt of the same record can help."""
        return self in _RETRYABLE


_RETRYABLE = frozenset({ErrorCategory.TRANSIENT, ErrorCategory.QUOTA, ErrorCategory.UNKNOWN})


class MarkerCode(StrEnum):
    """`error_code` values that this system sets itself, without the other side having said anything."""

    #: The record was past `expires_at` when it was claimed.
    EXPIRED = "EXPIRED"
    #: No template with this id or (active) code for this tenant and scope.
    TEMPLATE_NOT_FOUND = "TEMPLATE_NOT_FOUND"
    #: The template raised, exceeded its limits or, strict, missed a variable.
    RENDER_FAILED = "RENDER_FAILED"
    #: The body that the mode needs is blank after rendering.
    RENDER_EMPTY = "RENDER_EMPTY"
    #: The rendered text has over 2,000 characters, or more segments than its template allows.
    CONTENT_TOO_LONG = "CONTENT_TOO_LONG"
    #: The number belongs to no country, and no provider is pinned.
    REGION_NOT_RESOLVABLE = "REGION_NOT_RESOLVABLE"
    #: The template is bound to providers, none of which serves the number's country.
    NO_TEMPLATE_BINDING = "NO_TEMPLATE_BINDING"
    #: The provider sends its own templates only and none is named.
    EXTERNAL_TEMPLATE_REQUIRED = "EXTERNAL_TEMPLATE_REQUIRED"
    #: The provider needs a sender and its configuration has none.
    SENDER_REQUIRED = "SENDER_REQUIRED"
    #: The provider's configuration misses something it cannot work without.
    PROVIDER_CONFIG_INVALID = "PROVIDER_CONFIG_INVALID"
    #: No adapter for the configuration's provider type.
    PROVIDER_UNSUPPORTED = "PROVIDER_UNSUPPORTED"
    #: Every recipient is on the suppression list.
    SUPPRESSED = "SUPPRESSED"
    #: The rendered subject has over 500 characters.
    SUBJECT_TOO_LONG = "SUBJECT_TOO_LONG"
    #: The bucket of the month is at its limit.
    MONTHLY_QUOTA_EXCEEDED = "MONTHLY_QUOTA_EXCEEDED"
    #: The usage row was locked by others for too long; not an attempt.
    QUOTA_LEDGER_CONFLICT = "QUOTA_LEDGER_CONFLICT"
    #: A daily or per-minute window of the configuration is full; not an attempt.
    QUOTA_EXCEEDED = "QUOTA_EXCEEDED"
    #: The windows could not be asked; not an attempt.
    RATE_LIMIT_UNAVAILABLE = "RATE_LIMIT_UNAVAILABLE"
    #: `FILE_STORE_URL` is `none:`.
    ATTACHMENT_STORE_MISSING = "ATTACHMENT_STORE_MISSING"
    #: A stored file is not there, or not the tenant's.
    ATTACHMENT_NOT_FOUND = "ATTACHMENT_NOT_FOUND"
    #: The attachments together exceed the limit.
    ATTACHMENT_TOO_LARGE = "ATTACHMENT_TOO_LARGE"
    #: The file store failed or did not answer in time.
    ATTACHMENT_UNAVAILABLE = "ATTACHMENT_UNAVAILABLE"
    #: No usable server: none configured, or the pinned one is not there or not the tenant's.
    CONFIG_NOT_RESOLVABLE = "CONFIG_NOT_RESOLVABLE"
    #: The webhook's endpoint is disabled, by an operator or because it answered 410 Gone.
    ENDPOINT_DISABLED = "ENDPOINT_DISABLED"
    #: A stored secret cannot be decrypted with any key of `SECRETS_KEYS`.
    CREDENTIAL_UNREADABLE = "CREDENTIAL_UNREADABLE"
    #: Preparation raised something nobody foresaw.
    PREPARE_FAILED = "PREPARE_FAILED"
    #: The send raised something nobody foresaw.
    UNEXPECTED = "UNEXPECTED"
    #: The body derived or chosen at preparation exceeds the limit.
    BODY_TOO_LARGE = "BODY_TOO_LARGE"
    #: The stuck-send sweep took the record back from a worker that vanished.
    ZOMBIE_RECOVERED = "ZOMBIE_RECOVERED"
    #: An operator asked for another attempt.
    MANUAL_RETRY = "MANUAL_RETRY"
    #: The worker gave its claim back unused; not an attempt.
    CLAIM_RELEASED = "CLAIM_RELEASED"
    #: The caller or an operator called it off.
    CANCELLED = "CANCELLED"
    #: A bounce came back for a record that was sent.
    BOUNCED = "BOUNCED"


#: What each marker that can end an attempt says about trying again.
MARKER_CATEGORY: dict[MarkerCode, ErrorCategory] = {
    MarkerCode.EXPIRED: ErrorCategory.PERMANENT,
    MarkerCode.TEMPLATE_NOT_FOUND: ErrorCategory.AUTH,
    MarkerCode.RENDER_FAILED: ErrorCategory.INVALID_INPUT,
    MarkerCode.RENDER_EMPTY: ErrorCategory.INVALID_INPUT,
    MarkerCode.SUBJECT_TOO_LONG: ErrorCategory.INVALID_INPUT,
    MarkerCode.CONTENT_TOO_LONG: ErrorCategory.INVALID_INPUT,
    MarkerCode.REGION_NOT_RESOLVABLE: ErrorCategory.INVALID_INPUT,
    MarkerCode.NO_TEMPLATE_BINDING: ErrorCategory.AUTH,
    MarkerCode.EXTERNAL_TEMPLATE_REQUIRED: ErrorCategory.INVALID_INPUT,
    MarkerCode.SENDER_REQUIRED: ErrorCategory.AUTH,
    MarkerCode.PROVIDER_CONFIG_INVALID: ErrorCategory.AUTH,
    MarkerCode.PROVIDER_UNSUPPORTED: ErrorCategory.AUTH,
    MarkerCode.SUPPRESSED: ErrorCategory.PERMANENT,
    MarkerCode.MONTHLY_QUOTA_EXCEEDED: ErrorCategory.AUTH,
    MarkerCode.QUOTA_LEDGER_CONFLICT: ErrorCategory.TRANSIENT,
    MarkerCode.QUOTA_EXCEEDED: ErrorCategory.QUOTA,
    MarkerCode.RATE_LIMIT_UNAVAILABLE: ErrorCategory.TRANSIENT,
    MarkerCode.ATTACHMENT_STORE_MISSING: ErrorCategory.AUTH,
    MarkerCode.ATTACHMENT_NOT_FOUND: ErrorCategory.INVALID_INPUT,
    MarkerCode.ATTACHMENT_TOO_LARGE: ErrorCategory.INVALID_INPUT,
    MarkerCode.ATTACHMENT_UNAVAILABLE: ErrorCategory.TRANSIENT,
    MarkerCode.CONFIG_NOT_RESOLVABLE: ErrorCategory.AUTH,
    MarkerCode.ENDPOINT_DISABLED: ErrorCategory.AUTH,
    MarkerCode.CREDENTIAL_UNREADABLE: ErrorCategory.AUTH,
    MarkerCode.PREPARE_FAILED: ErrorCategory.UNKNOWN,
    MarkerCode.UNEXPECTED: ErrorCategory.UNKNOWN,
    MarkerCode.BODY_TOO_LARGE: ErrorCategory.INVALID_INPUT,
}
