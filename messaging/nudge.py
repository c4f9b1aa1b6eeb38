"""After an accepting commit: run the tick now. A hint that shortens the wait; the beat is the guarantee.

Runs when the outermost transaction that accepted something has committed, never before and never on a rollback. The
function that `DISPATCH__NUDGE` names is called with the channel's name, by a thread of its own: a commit does not wait
for a broker.
"""

import importlib
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Protocol

from sqlalchemy import event
from sqlalchemy.orm import Session, SessionTransaction, scoped_session

from messaging.errors import ConfigurationError

logger = logging.getLogger(__name__)

#: At most one call a channel in so many seconds: one tick takes everything that was committed before it.
MIN_INTERVAL_SECONDS = 0.05

#: Seconds without a call after one that failed: a broker that is down must not cost the callers' processor time.
PAUSE_AFTER_FAILURE_SECONDS = 1.0

#: Seconds between two warnings that calls fail.
WARN_INTERVAL_SECONDS = 60.0


class HasNudge(Protocol):
    """The area of the settings that is read here."""

    @property
    def nudge(self) -> str: ...


class HasDispatch(Protocol):
    """What is read of the settings."""

    @property
    def dispatch(self) -> HasNudge: ...


_ACCEPTED_IN = "messaging.nudge.accepted_in"
_IS_WATCHED = "messaging.nudge.is_watched"


def after_commit(session: Session | scoped_session[Session], settings: HasDispatch, channel: str) -> None:
    """Nudge the channel once the transaction that `session` is in has committed; called after each insert.

    What is undone with a savepoint or with the whole transaction nudges nothing. A session joined to an outside
    transaction nudges when the session commits, which is too early and harmless: the tick finds nothing yet.
    """
    target = settings.dispatch.nudge
    if not target:
        return
    if isinstance(session, scoped_session):
        session = session()
    transaction = session.get_nested_transaction() or session.get_transaction()
    if transaction is None:
        return
    _accepted_in(session).setdefault(transaction, set()).add((target, channel))
    if not session.info.get(_IS_WATCHED):
        session.info[_IS_WATCHED] = True
        event.listen(session, "after_commit", _on_commit)
        event.listen(session, "after_transaction_end", _on_end)


def now(settings: HasDispatch, channel: str) -> None:
    """Nudge the channel at once, for what is committed already. Never blocks and never raises."""
    if settings.dispatch.nudge:
        _nudgers.want(settings.dispatch.nudge, channel)


#: What to call, and the channel it is called with.
_Calls = set[tuple[str, str]]


def _accepted_in(session: Session) -> dict[SessionTransaction, _Calls]:
    """The open transactions and savepoints of `session` in which something was accepted, each with its calls."""
    accepted: dict[SessionTransaction, _Calls] = session.info.setdefault(_ACCEPTED_IN, {})
    return accepted


def _on_commit(session: Session) -> None:
    # SQLAlchemy reports a released savepoint as a commit; what it holds is visible with the transaction around it.
    savepoint = session.get_nested_transaction()
    accepted = _accepted_in(session)
    if savepoint is None:
        calls = set().union(*accepted.values())
        accepted.clear()
        for target, channel in calls:
            _nudgers.want(target, channel)
    elif savepoint in accepted:
        around = savepoint.parent
        # Inside a flush the parent may be a subtransaction, which ends without a commit of its own.
        while around is not None and around.parent is not None and not around.nested:
            around = around.parent
        if around is not None:
            accepted.setdefault(around, set()).update(accepted.pop(savepoint))


def _on_end(session: Session, transaction: SessionTransaction) -> None:
    # After a commit nothing is left under the transaction's name; after a rollback or a close it is forgotten here.
    accepted = _accepted_in(session)
    if transaction.parent is None:
        accepted.clear()
    else:
        accepted.pop(transaction, None)


class _Nudger:
    """The thread that calls one target; started when it is first wanted."""

    def __init__(self, target: str) -> None:
        self._target = target
        #: Channels; a set's own operations are atomic.
        self._channels: set[str] = set()
        self._is_wanted = threading.Event()
        self._warned_at: float | None = None
        threading.Thread(target=self._run, name="messaging-nudge", daemon=True).start()

    def want(self, channel: str) -> None:
        self._channels.add(channel)
        self._is_wanted.set()

    def _run(self) -> None:
        function: Callable[[str], object] | None = None
        while True:
            self._is_wanted.wait()
            # Cleared before the call: a commit during it needs another one.
            self._is_wanted.clear()
            started_at = time.monotonic()
            pause = MIN_INTERVAL_SECONDS
            try:
                if function is None:
                    function = _load(self._target)
                while self._channels:
                    function(self._channels.pop())
            except Exception as exc:  # noqa: BLE001 - whatever the function that a setting names may raise
                self._warn(exc)
                pause = PAUSE_AFTER_FAILURE_SECONDS
            time.sleep(max(0.0, started_at + pause - time.monotonic()))

    def _warn(self, exc: Exception) -> None:
        at = time.monotonic()
        if self._warned_at is None or at - self._warned_at >= WARN_INTERVAL_SECONDS:
            self._warned_at = at
            logger.warning(
                "nudge failed, the next beat tick dispatches instead",
                extra={"nudge": self._target, "error": f"{type(exc).__name__}: {exc}"[:500]},
            )


def _load(target: str) -> Callable[[str], object]:
    module, _, name = target.partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as exc:
        raise ConfigurationError(f"DISPATCH__NUDGE is {target!r}, which cannot be loaded: {exc}") from exc
    if not callable(function):
        raise ConfigurationError(f"DISPATCH__NUDGE is {target!r}, which is not a function")
    return function  # type: ignore[no-any-return]


class _Nudgers:
    """The nudgers of this process by target. A forked child has none of its parent's threads and starts anew."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_target: dict[str, _Nudger] = {}
        self._is_fork_watched = False

    def want(self, target: str, channel: str) -> None:
        try:
            self._get(target).want(channel)
        except RuntimeError as exc:
            # No thread could be started. The caller's commit has taken place and must not seem to have failed.
            logger.warning(
                "nudge failed, the next beat tick dispatches instead", extra={"nudge": target, "error": str(exc)}
            )

    def _get(self, target: str) -> _Nudger:
        with self._lock:
            if not self._is_fork_watched:
                os.register_at_fork(after_in_child=self._forget)
                self._is_fork_watched = True
            nudger = self._by_target.get(target)
            if nudger is None:
                nudger = self._by_target[target] = _Nudger(target)
            return nudger

    def _forget(self) -> None:
        # The lock too: another thread of the parent may have held it at the moment of the fork.
        self._lock = threading.Lock()
        self._by_target = {}


_nudgers = _Nudgers()
