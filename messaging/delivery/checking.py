"""What a check of a message finds, whatever its channel: what would keep it from being sent, and what is worth knowing.

Reads in the transaction that it is given; writes and charges nothing.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.orm import Session

from messaging import quota, suppression
from messaging.category import MarkerCode
from messaging.errors import MessageRejected, PreparationError
from messaging.sandbox.rules import SandboxRules
from messaging.settings import Settings
from messaging.suppression import Subject

#: How long a check keeps what it has read: longer than any takes.
CHECK_SECONDS = 600.0
#: Stands for the record's id, which there is none of.
NO_ID = 1


class Severity(StrEnum):
    """What a finding means for the message."""

    #: It would be refused, or fail.
    ERROR = "ERROR"
    #: It would go out, not quite as asked.
    WARNING = "WARNING"


class FindingCode(StrEnum):
    """`code` of a finding, beside the marker codes with which a record fails."""

    #: Acceptance refuses the request.
    REJECTED = "REJECTED"
    #: The template asks for a variable that is not given; it shows as nothing.
    MISSING_VARIABLES = "MISSING_VARIABLES"
    #: Some recipients are on the suppression list.
    PARTLY_SUPPRESSED = "PARTLY_SUPPRESSED"
    #: Sandbox mode keeps it from some or all of its recipients.
    SANDBOX = "SANDBOX"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check has to say."""

    severity: Severity
    #: A `FindingCode` or a `MarkerCode`.
    code: str
    message: str
    #: Of the request; None where no one field is to blame.
    field: str | None = None


class Findings:
    """What was found so far, each thing once."""

    def __init__(self) -> None:
        self.all: list[Finding] = []

    @property
    def has_error(self) -> bool:
        """Whether the message would be refused or fail."""
        return any(finding.severity is Severity.ERROR for finding in self.all)

    def error(self, code: str, message: str, field: str | None = None) -> None:
        """It would be refused, or fail."""
        self._add(Finding(Severity.ERROR, code, message, field))

    def warning(self, code: str, message: str, field: str | None = None) -> None:
        """It would go out, not quite as asked."""
        self._add(Finding(Severity.WARNING, code, message, field))

    def rejected(self, exc: MessageRejected) -> None:
        """Acceptance refuses it."""
        self.error(FindingCode.REJECTED, exc.reason, exc.field)

    def unprepared(self, exc: PreparationError) -> None:
        """It would be accepted and fail at its first attempt."""
        self.error(exc.marker, str(exc))

    def missing(self, names: Sequence[str] | None) -> None:
        """The template asks for variables that are not given."""
        if names:
            self.warning(FindingCode.MISSING_VARIABLES, f"not given: {', '.join(names)}", "template_variables")

    def _add(self, finding: Finding) -> None:
        if finding not in self.all:
            self.all.append(finding)


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check answers whatever the channel: whether it would be sent, and why not."""

    #: Whether nothing that was looked at keeps it from being sent; the other side may still refuse it.
    is_sendable: bool
    findings: list[Finding]
    #: None: it names none, or there is none.
    template_id: int | None
    #: Names that the template asks for and does not get.
    missing_variables: list[str]
    #: Recipients that get nothing, as they are on the suppression list.
    suppressed: list[str]
    #: Whose monthly quota it is charged to, and how many more that lets out; None is unlimited.
    quota_tenant_id: int | None
    quota_remaining: int | None


def look_at_suppressions(
    connection: Connection, channel: str, tenant_id: int, subject: Subject, findings: Findings
) -> list[str]:
    """Which recipients are on the list."""
    stopped = subject.stopped(tenant_id, suppression.find(connection, channel, subject.wanted(tenant_id)))
    if stopped:
        told = "; ".join(f"{recipient}: {entry.reason} (entry {entry.id})" for recipient, entry in stopped.items())
        if len(stopped) == len(subject.addresses):
            findings.error(MarkerCode.SUPPRESSED, f"every recipient is on the suppression list: {told}")
        else:
            findings.warning(FindingCode.PARTLY_SUPPRESSED, f"on the suppression list: {told}")
    return list(stopped)


def look_at_quota(
    session: Session, channel: str, scope: str, tenant_id: int, settings: Settings, findings: Findings
) -> tuple[int, int | None]:
    """The bucket, and how many more messages of this channel it lets out this month."""
    bucket = quota.bucket(scope, tenant_id)
    standing = quota.standing(session, bucket, settings.quota)
    left, limit = (
        (standing.sms_remaining, standing.sms_limit)
        if channel == suppression.SMS
        else (standing.mail_remaining, standing.mail_limit)
    )
    if left == 0:
        findings.error(
            MarkerCode.MONTHLY_QUOTA_EXCEEDED, f"tenant {bucket} has used its {limit} messages of {standing.period}"
        )
    return bucket, left


def look_at_sandbox(channel: str, recipients: Sequence[str], settings: Settings, findings: Findings) -> None:
    """What sandbox mode would do with it."""
    ruling = SandboxRules(settings.sandbox).rule(channel, recipients)
    if ruling.captured:
        findings.warning(FindingCode.SANDBOX, f"kept and not sent to {', '.join(ruling.captured)}")
    if ruling.redirected:
        findings.warning(FindingCode.SANDBOX, f"sent to {ruling.redirect_to} instead")


def as_read(row: Mapping[str, Any], json_columns: Collection[str]) -> dict[str, Any]:
    """The row that acceptance would write, as it is read back: what it writes as JSON text, parsed."""
    parsed = {name: json.loads(row[name]) for name in json_columns if row[name] is not None}
    return {**row, **parsed}
