"""The shop's day: orders placed, a worker killed in the middle of a send, messages watched to their end, and judged."""

import shlex
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from messaging import api, metrics
from messaging.access.links import MAX_MINUTES as LINK_MINUTES
from messaging.api import access
from messaging.db import schema
from messaging.db.trouble import is_away
from messaging.demo.answer_evidence import wrong_answers
from messaging.demo.answers import Answer
from messaging.demo.configuration import OPERATOR, HookAccount, MailboxAccount, TextAccount, configure_shops
from messaging.demo.display import Display
from messaging.demo.evidence import Ending, Journal, Row, conclude, is_final, read_rows, strangers, wrong_counts
from messaging.demo.hook_evidence import expected_events, wrong_events
from messaging.demo.parts import DemoFailed, Parts
from messaging.demo.shop import (
    PLATFORM,
    Accepted,
    Fate,
    another_order,
    first_order,
    further_orders,
    open_shops,
    passing_orders,
    place,
)
from messaging.demo.stop import StopRequest
from messaging.demo.text_evidence import TextEnding, conclude_texts, strange_texts

#: Seconds between two looks at the records.
LOOK_SECONDS = 0.1
#: Seconds between two orders, so that one can follow.
ORDER_SECONDS = 0.1
#: The same while the demo stays up.
PASSING_ORDER_SECONDS = 1.5
#: Seconds after which records that have not ended are wrong: they take ten on an idle machine, and many on a busy one.
DEADLINE_SECONDS = 180.0


class Scenario:
    """One run; the servers are up."""

    def __init__(self, parts: Parts, stop: StopRequest, began_at: float) -> None:
        self._parts = parts
        self._stop = stop
        self._orders = [first_order(), *further_orders()]
        bounced = next(order for order in self._orders if order.fate is Fate.BOUNCED)
        #: Placed once the bounce is known.
        self._last = another_order(bounced, len(self._orders) + 1)
        self._orders.append(self._last)
        kept = [order for order in self._orders if order.fate is not Fate.ROLLED_BACK]
        records = len(kept) + sum(order.text_fate is not None for order in kept)
        self._display = Display(records, began_at)
        self._journal = Journal(parts.journal_path)
        self._accepted: list[Accepted] = []
        self._rows: dict[int, Row] = {}
        #: Signs in to the console, once; there when `run` is through.
        self.console_link = ""

    def run(self) -> bool:
        """Everything up to the closing words; answers whether all is as it ought to be.

        Raises: DemoFailed, Stopped, ConfigurationError.
        """
        parts, say = self._parts, self._display.say
        say(f"PostgreSQL on port {parts.postgres.port} and Valkey on port {parts.valkey.port} run in {parts.folder}")
        schema.upgrade(parts.postgres.url())
        self._stop.check()
        settings = parts.configure()
        parts.start_first(settings)
        say("the schema is there; a worker for ticks, one for mail, and beat start")
        self._engine = api.configure(settings).engine
        open_shops(self._engine)
        texts = TextAccount(parts.text_endpoint(), parts.text_auth_token)
        mailbox = MailboxAccount(parts.mailbox_port, parts.mailbox_password)
        hooks = HookAccount(parts.hook_url(), parts.hook_secret)
        configure_shops(self._engine, smtp_port=parts.smtp_port(), texts=texts, mailbox=mailbox, hooks=hooks)
        say("two shops and the platform have servers, templates and files; one shop has a quota, one server a window")
        say("one shop has a provider of text messages for one country, which sends receipts to our HTTP application")
        say("its own application is told what becomes of its messages, by signed webhooks; at first it answers 503")
        say(f"its mailbox, to which answers and bounces come, is served over IMAP on port {parts.mailbox_port}")
        with self._display:
            self._place_first()
            parts.start_others(settings)
            say(f"{len(self._orders) - 1} more orders come in, while more workers, HTTP application and Flower start")
            self._place_others_and_watch()
        self._journal.read()  # both far ends write before they answer, so what ended is in there now
        endings = conclude(self._engine, self._accepted, self._journal)
        text_endings = conclude_texts(self._accepted, self._journal)
        self._display.conclude(endings, text_endings)
        wrong = self._what_is_wrong(endings, text_endings)
        with PLATFORM.acting():
            secret = access.make_operator_link(OPERATOR, minutes=LINK_MINUTES)
        self.console_link = f"{parts.web_url}/console/link/{secret}"
        self._sum_up(wrong)
        return not wrong

    def go_on(self) -> None:
        """Place orders as they come, so that there is something to look at. Raises: Stopped, once a signal comes."""
        for order in passing_orders(len(self._orders) + 1):
            try:
                place(self._engine, order)
            except SQLAlchemyError as exc:
                if not is_away(exc):
                    raise  # else it is being restarted: that customer comes in vain
            self._stop.sleep(PASSING_ORDER_SECONDS)

    def _place_first(self) -> None:
        """Place the first order; when the mail server has its mail and says nothing, kill the worker that waits."""
        order = self._orders[0]
        self._accepted.append(place(self._engine, order))
        self._display.say(f"order {order.number} is placed: its worker will be killed in the middle of the send")

        def is_in_flight() -> bool:
            self._look()
            return order.address in self._journal.unanswered

        self._parts.wait_for(is_in_flight, f"the mail to {order.address} does not reach the mail server")
        name = self._journal.unanswered[order.address].partition(".")[0]
        self._parts.supervisor.kill(name)
        self._display.say(f"the mail server has taken it and keeps its reply back: worker {name} is killed (SIGKILL)")

    def _place_others_and_watch(self) -> None:
        """Place all other orders, the last one after a bounce, and watch until every mail has ended or time is up."""
        waiting = iter(self._orders[1:-1])
        order = next(waiting, None)
        next_order_at = looked_at = 0.0
        until = time.monotonic() + DEADLINE_SECONDS
        while (at := time.monotonic()) < until:
            if order is not None and at >= next_order_at:
                self._accepted.append(place(self._engine, order))
                order, next_order_at = next(waiting, None), at + ORDER_SECONDS
            if at - looked_at >= LOOK_SECONDS:
                looked_at = at
                self._look()
                if order is None:
                    if self._accepted[-1].order is not self._last:
                        self._place_last()
                    elif is_final(self._accepted, self._rows):
                        return
            self._stop.sleep(LOOK_SECONDS / 4)

    def _place_last(self) -> None:
        """One more order of the customer whose mail bounced, once its record says so."""
        bounced = next(each for each in self._accepted if each.order.fate is Fate.BOUNCED)
        row = self._rows.get(bounced.mail_id)
        if row is not None and row.answer is Answer.BOUNCED:
            self._display.say(f"mail {bounced.mail_id} came back; its customer orders again, at the same address")
            self._accepted.append(place(self._engine, self._last))

    def _look(self) -> None:
        self._parts.supervisor.require_hope()
        self._journal.read()
        try:
            self._rows = read_rows(self._engine, self._accepted)
        except SQLAlchemyError as exc:
            if not is_away(exc):
                raise
            return  # being restarted: what was seen last stands until the next look
        self._display.update(self._accepted, self._rows)

    def _what_is_wrong(self, endings: Sequence[Ending], texts: Sequence[TextEnding]) -> list[str]:
        wrong = [f"mail {e.accepted.mail_id}, {e.accepted.order.fate.value}: {e.wrong}" for e in endings if e.wrong]
        wrong += [
            f"text message {e.accepted.text_id} to {e.accepted.order.phone_number}: {e.wrong}" for e in texts if e.wrong
        ]
        wrong += wrong_counts(endings, given_back=metrics.count_of("messaging_released_total", channel="mail"))
        if self._accepted[-1].order is self._last:
            wrong += wrong_answers(self._accepted)
        else:
            wrong.append("no bounce was fetched")
        wrong += [f"the mail server took {each}, which is no record's" for each in strangers(endings, self._journal)]
        wrong += [f"the provider took a text message for {each}" for each in strange_texts(texts, self._journal)]
        files, copies = len(list(self._parts.mail_folder.glob("*.eml"))), sum(ending.copies for ending in endings)
        if files != copies:
            wrong.append(f"{files} captured files for {copies} copies of our mails")
        try:
            self._parts.wait_for(self._parts.is_flower_there, "Flower does not answer")
        except DemoFailed as exc:
            wrong.append(str(exc))
        return wrong + self._wrong_events(endings, texts)

    def _wrong_events(self, endings: Sequence[Ending], texts: Sequence[TextEnding]) -> list[str]:
        """Events are told after the change that they are of; the one that was answered 503 last."""
        expected = expected_events(endings, texts)

        def are_told() -> bool:
            self._journal.read()
            return len(self._journal.told) >= expected.total()

        with suppress(DemoFailed):  # which are missing is said below
            self._parts.wait_for(are_told, "the shop's application is not told all events")
        return wrong_events(expected, self._journal)

    def _sum_up(self, wrong: Sequence[str]) -> None:
        parts, print_line = self._parts, self._display.print_line
        for line in wrong:
            print_line(f"WRONG: {line}")
        took = f"after {self._display.elapsed_seconds:.1f} s"
        if wrong:
            print_line(f"Not all is as it ought to be, {took}. Logs: {parts.log_folder}")
        else:
            print_line(f"All {len(self._orders)} orders ended as they ought to, {took}.")
        told = len(self._journal.told)
        print_line(f"Webhooks:        {told} events told to the shop's own application, each signed and accepted once")
        command = shlex.quote(str(Path(sys.executable).with_name("messaging")))
        print_line(f"Captured mail:   {parts.mail_folder}, one file each")
        print_line(f"Console:         {self.console_link}")
        print_line(
            f"                 signs in as {OPERATOR}, who sees all tenants: once, within {LINK_MINUTES} minutes"
        )
        print_line(f"Flower:          {parts.flower_url}, user demo, password {parts.flower_password}")
        print_line("A mail's story, while all this is up:")
        first = self._accepted[0]
        show = f"show {first.mail_id} --tenant {first.order.seller.tenant_id}"
        print_line(f"  . {shlex.quote(str(parts.environment_path))}; {command} {show}")
