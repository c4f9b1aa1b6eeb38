"""Every counter, gauge and histogram, with its labels and meaning; one function each, called where the fact is known.

The processes of a host write into one directory (prometheus_client's multiprocess mode), so that any of them can show
them all. prometheus_client chooses its storage when it is first imported: that is at the first count, after
`use_directory`. No label holds a tenant, an address or a record id.
"""

import functools
import hashlib
import logging
import os
import re
import stat
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from messaging.errors import ConfigurationError

if TYPE_CHECKING:
    from prometheus_client import Counter, Gauge, Histogram

#: The variable by which prometheus_client knows that it shares a directory.
DIRECTORY_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"

#: Content type of `exposition()`.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

#: From a reply on the same host to a send that used up `DELIVERY__SEND_MAX_SECONDS`.
_SEND_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)

#: From a nudged mail on an idle system to one that went through every back-off.
_WAIT_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400)

#: From an answer that asks nobody to one that waited for a whole time-out.
_REQUEST_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)

#: Methods that are labels; a caller may invent others.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

#: Files that only mean something while their process lives.
_LIVE_GAUGE_FILE = re.compile(r"gauge_live[a-z]*_(\d+)\.db")

_making = threading.Lock()

logger = logging.getLogger(__name__)


def accepted(channel: str, count: int = 1) -> None:
    """Records inserted by acceptance, before the caller's commit: a rollback is not taken back here."""
    _child("accepted", channel).inc(count)


def sent(channel: str, provider: str | None, count: int = 1) -> None:
    """The other side accepted and the SENT write applied."""
    _child("sent", channel, provider or "unknown").inc(count)


def partial(channel: str, provider: str | None, count: int = 1) -> None:
    """SENT with at least one refused recipient; counted in `sent` too."""
    _child("partial", channel, provider or "unknown").inc(count)


def failed(channel: str, provider: str | None, outcome: str, count: int = 1) -> None:
    """An attempt failed and its write applied; `outcome` is retry, failed or dead_letter."""
    _child("failed", channel, provider or "unknown", outcome).inc(count)


def lost_updates(channel: str, step: str, count: int = 1) -> None:
    """A conditional update hit no row; `step` is claim, prepare, outcome, release, late, requeue, cancel or bounce."""
    _child("lost_updates", channel, step).inc(count)


def late_outcomes(channel: str, result: str, count: int = 1) -> None:
    """An outcome that came after the sweep was still recorded (T14); `result` is sent or retry."""
    _child("late_outcomes", channel, result).inc(count)


def released(channel: str, reason: str, count: int = 1) -> None:
    """Claims given back unused (T11); `reason` is hold, stopping, dependency or old."""
    _child("released", channel, reason).inc(count)


def quota(channel: str, result: str, count: int = 1) -> None:
    """Records at the monthly quota; `result` is charged, exceeded or conflict."""
    _child("quota", channel, result).inc(count)


def rate_limited(channel: str, result: str, count: int = 1) -> None:
    """Sends held back by a configuration's windows; `result` is minute, daily or unavailable."""
    _child("rate_limited", channel, result).inc(count)


def suppressed(channel: str, count: int = 1) -> None:
    """Recipients that were not contacted because they are on the suppression list."""
    _child("suppressed", channel).inc(count)


def promoted(channel: str, count: int = 1) -> None:
    """Waiting records put in line because their time has come (T2a)."""
    _child("promoted", channel).inc(count)


def swept(channel: str, result: str, count: int = 1) -> None:
    """Records taken back from a worker that vanished; `result` is retry, dead_letter or sent."""
    _child("swept", channel, result).inc(count)


def pruned(kind: str, count: int) -> None:
    """Rows that retention took away or emptied; `kind` is its setting's, such as `bodies`."""
    if count:
        _child("pruned", kind).inc(count)


def poison(event_type: str, count: int = 1) -> None:
    """Broker messages that no worker could process; `event_type` is that of the dead letter."""
    _child("poison", event_type).inc(count)


def received(mail_type: str, count: int = 1) -> None:
    """Mails that a fetch stored; a mail it had before is not counted again."""
    _child("received", mail_type).inc(count)


def link(mail_type: str, result: str, count: int = 1) -> None:
    """Received reports that were tied to the record they are about, or given up; `result` is linked or unmatched."""
    _child("link", mail_type, result).inc(count)


def fetch_failures(protocol: str, count: int = 1) -> None:
    """Fetches that could not reach or read their mailbox, or a folder of it; `protocol` is the mailbox's."""
    _child("fetch_failures", protocol).inc(count)


def send_seconds(channel: str, provider: str | None, seconds: float) -> None:
    """One send, from connect or first command to the last reply."""
    _child("send_seconds", channel, provider or "unknown").observe(seconds)


def due_to_sent_seconds(channel: str, provider: str | None, seconds: float) -> None:
    """From the moment a record was due to SENT."""
    _child("due_to_sent_seconds", channel, provider or "unknown").observe(seconds)


def dispatch_lag(channel: str, seconds: float) -> None:
    """How long a record had been due when a tick leased it."""
    _child("dispatch_lag_seconds", channel).observe(seconds)


def due_records(channel: str, count: int) -> None:
    """Records in line, counted up to 10,000."""
    _child("due_records", channel).set(count)


def overdue_records(channel: str, count: int) -> None:
    """Records due but not yet promoted, counted up to 10,000."""
    _child("overdue_records", channel).set(count)


def oldest_due(channel: str, seconds: float) -> None:
    """Age of the oldest record in line; 0 with an empty line."""
    _child("oldest_due_seconds", channel).set(seconds)


def oldest_overdue(channel: str, seconds: float) -> None:
    """Age of the oldest record that promote should have put in line, 0 without one. Grows while no tick runs."""
    _child("oldest_overdue_seconds", channel).set(seconds)


def oldest_transaction(seconds: float) -> None:
    """Age of the database's oldest open transaction: an old snapshot slows every lease."""
    _child("oldest_transaction_seconds").set(seconds)


def http_request(method: str, route: str | None, status: int, seconds: float) -> None:
    """The HTTP application answered; `route` is the path's template, so that no id is a label."""
    known = method if method in _METHODS else "OTHER"
    _child("http_request_seconds", known, route or "none", str(status)).observe(seconds)


def use_directory(directory: str, *, database_url: str, owns_process: bool = False) -> Path:
    """Share metrics with the other processes of this host; an entry point calls it before the first count.

    An empty `directory` is a temporary one that all processes of this user with the same database share. Where the
    program has imported prometheus_client before, its choice stands and metrics stay in the process, unless the
    process is ours: Celery's command line imports it with Flower, before any setting is read.

    Raises:
        ConfigurationError: The directory cannot be made or is another user's.
    """
    path = Path(directory or os.environ.get(DIRECTORY_VARIABLE) or _default_directory(database_url))
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.stat(follow_symlinks=bool(directory))
    except OSError as exc:
        raise ConfigurationError(f"METRICS__DIRECTORY: {path} cannot be used: {exc.strerror}") from exc
    if not stat.S_ISDIR(found.st_mode) or not os.access(path, os.W_OK | os.X_OK):
        raise ConfigurationError(f"METRICS__DIRECTORY: {path} is not a directory this user can write to")
    if not directory and found.st_uid != os.geteuid():
        raise ConfigurationError(f"METRICS__DIRECTORY: {path} belongs to another user; name a directory of your own")
    os.environ[DIRECTORY_VARIABLE] = str(path)
    if owns_process:
        from prometheus_client import values

        values.ValueClass = values.MultiProcessValue()  # type: ignore[no-untyped-call]
    return path


def exposition() -> bytes:
    """All metrics of this host's processes in Prometheus' text format; of this process alone when none are shared."""
    from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
    from prometheus_client.multiprocess import MultiProcessCollector

    directory = os.environ.get(DIRECTORY_VARIABLE)
    if directory is None:
        _metrics()
        return generate_latest(REGISTRY)
    _restore_directory()
    forget_dead_processes(Path(directory))
    registry = CollectorRegistry()
    MultiProcessCollector(registry, path=directory)  # type: ignore[no-untyped-call]
    return generate_latest(registry)


def count_of(name: str, **labels: str) -> int:
    """What a counter has come to in all of this host's processes, over all labels that are not given."""
    from prometheus_client.parser import text_string_to_metric_families

    samples = (sample for family in text_string_to_metric_families(exposition().decode()) for sample in family.samples)
    return round(sum(s.value for s in samples if s.name == name and labels.items() <= s.labels.items()))


def forget_dead_processes(directory: Path) -> None:
    """Remove the gauges of processes that are gone; their counters stay, as totals must not go back."""
    for path in directory.glob("gauge_live*.db"):
        match = _LIVE_GAUGE_FILE.fullmatch(path.name)
        if match and not _is_alive(int(match[1])):
            path.unlink(missing_ok=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _default_directory(database_url: str) -> Path:
    """One for each user and database: two installations on a host must not add up their counts."""
    place = database_url.rpartition("@")[2]
    name = hashlib.sha256(place.encode()).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"messaging-metrics-{os.geteuid()}-{name}"


@dataclass(frozen=True, slots=True)
class _Metrics:
    """The metric objects of this process; names and labels are those operators see."""

    accepted: "Counter"
    sent: "Counter"
    partial: "Counter"
    failed: "Counter"
    lost_updates: "Counter"
    late_outcomes: "Counter"
    released: "Counter"
    quota: "Counter"
    rate_limited: "Counter"
    suppressed: "Counter"
    promoted: "Counter"
    swept: "Counter"
    pruned: "Counter"
    poison: "Counter"
    received: "Counter"
    link: "Counter"
    fetch_failures: "Counter"
    send_seconds: "Histogram"
    due_to_sent_seconds: "Histogram"
    dispatch_lag_seconds: "Histogram"
    due_records: "Gauge"
    overdue_records: "Gauge"
    oldest_due_seconds: "Gauge"
    oldest_overdue_seconds: "Gauge"
    oldest_transaction_seconds: "Gauge"
    http_request_seconds: "Histogram"


class _Child:
    """The counter, gauge or histogram of these labels; looked up once, as that costs more than a count."""

    def __init__(self, name: str, labels: tuple[str, ...]) -> None:
        self._name = name
        self._labels = labels
        self._found: Any = None

    def inc(self, count: float) -> None:
        self._do("inc", count)

    def set(self, value: float) -> None:
        self._do("set", value)

    def observe(self, value: float) -> None:
        self._do("observe", value)

    def _do(self, what: str, value: float) -> None:
        try:
            try:
                self._do_once(what, value)
            except FileNotFoundError:
                _restore_directory()
                self._do_once(what, value)
        except (OSError, ValueError) as exc:
            # ValueError: what an OSError broke off in the middle of its making cannot be made again.
            _warn_once(type(exc).__name__)

    def _do_once(self, what: str, value: float) -> None:
        if self._found is None:
            metric = getattr(_metrics(), self._name)
            self._found = metric.labels(*self._labels) if self._labels else metric
        getattr(self._found, what)(value)


@functools.cache
def _child(name: str, *labels: str) -> _Child:
    return _Child(name, labels)


def _restore_directory() -> None:
    """The folder for temporary files may be cleaned under a running program."""
    directory = os.environ.get(DIRECTORY_VARIABLE)
    if directory is not None:
        Path(directory).mkdir(mode=0o700, parents=True, exist_ok=True)


@functools.cache
def _warn_once(error: str) -> None:
    logger.warning("metrics cannot be counted here", extra={"error": error})


def _metrics() -> _Metrics:
    # Two threads that count first at the same moment must not both register the names.
    with _making:
        return _make_metrics()


@functools.cache
def _make_metrics() -> _Metrics:
    from prometheus_client import Counter, Gauge, Histogram

    _restore_directory()

    def gauge(name: str, documentation: str, *labels: str) -> Gauge:
        # Any worker of the control queue measures: the newest measurement of a living process counts.
        return Gauge(f"messaging_{name}", documentation, labels, multiprocess_mode="livemostrecent")

    return _Metrics(
        accepted=Counter("messaging_accepted_total", "Records inserted, before the caller's commit", ["channel"]),
        sent=Counter("messaging_sent_total", "Accepted by the other side and recorded", ["channel", "provider"]),
        partial=Counter("messaging_partial_total", "Sent with a refused recipient", ["channel", "provider"]),
        failed=Counter("messaging_failed_total", "Failed attempts recorded", ["channel", "provider", "outcome"]),
        lost_updates=Counter("messaging_lost_updates_total", "Conditional updates without a row", ["channel", "step"]),
        late_outcomes=Counter("messaging_late_outcomes_total", "Outcomes recorded late", ["channel", "result"]),
        released=Counter("messaging_released_total", "Claims given back unused", ["channel", "reason"]),
        quota=Counter("messaging_quota_total", "Records at the monthly quota", ["channel", "result"]),
        rate_limited=Counter("messaging_rate_limited_total", "Sends held back by windows", ["channel", "result"]),
        suppressed=Counter("messaging_suppressed_total", "Recipients on the suppression list", ["channel"]),
        promoted=Counter("messaging_promoted_total", "Waiting records put in line", ["channel"]),
        swept=Counter("messaging_swept_total", "Records taken back from vanished workers", ["channel", "result"]),
        pruned=Counter("messaging_pruned_total", "Rows that retention took away or emptied", ["kind"]),
        poison=Counter("messaging_poison_total", "Messages no worker could process", ["event_type"]),
        received=Counter("messaging_received_total", "Received mails stored", ["mail_type"]),
        link=Counter("messaging_link_total", "Received reports tied to a record, or given up", ["type", "result"]),
        fetch_failures=Counter("messaging_fetch_failures_total", "Fetches that failed", ["protocol"]),
        send_seconds=Histogram("messaging_send_seconds", "One send", ["channel", "provider"], buckets=_SEND_BUCKETS),
        due_to_sent_seconds=Histogram(
            "messaging_due_to_sent_seconds", "From due to sent", ["channel", "provider"], buckets=_WAIT_BUCKETS
        ),
        dispatch_lag_seconds=Histogram(
            "messaging_dispatch_lag_seconds", "From due to leased", ["channel"], buckets=_WAIT_BUCKETS
        ),
        due_records=gauge("due_records", "Records in line, up to 10,000", "channel"),
        overdue_records=gauge("overdue_records", "Records due but not promoted, up to 10,000", "channel"),
        oldest_due_seconds=gauge("oldest_due_seconds", "Age of the oldest record in line", "channel"),
        oldest_overdue_seconds=gauge("oldest_overdue_seconds", "Age of the oldest record not promoted", "channel"),
        oldest_transaction_seconds=gauge("oldest_transaction_seconds", "Age of the oldest open transaction"),
        http_request_seconds=Histogram(
            "messaging_http_request_seconds",
            "Requests answered by the HTTP application",
            ["method", "route", "status"],
            buckets=_REQUEST_BUCKETS,
        ),
    )
