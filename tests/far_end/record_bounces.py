"""Writes tests/data/bounces anew: what a real Postfix and a real Exim send back for mails of this project.

`python -m tests.far_end.record_bounces`, after `make farends`; takes some ten seconds. Each mail has an envelope sender
of its own that names its record, signed with `KEY`, and is sent by the project's own transport.
"""

import base64
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from messaging.clock import boot_seconds, utc_now
from messaging.db.encryption import use_keys
from messaging.delivery.gate import SendGate, SendLimits
from messaging.mail import mime, verp
from messaging.mail.smtp import Envelope, Security, SmtpServer, SmtpTransport
from messaging.requests import BodyMode
from messaging.settings import MailTransportSettings
from tests.far_end.dovecot import Dovecot
from tests.far_end.exim import Exim
from tests.far_end.postfix import Postfix
from tests.far_end.smtp_server import Rule, ScriptedSmtpServer

FOLDER = Path(__file__).resolve().parents[1] / "data/bounces"

#: What the envelope senders in the files are signed with.
KEY = base64.urlsafe_b64encode(b"key of the recorded bounces.....").decode()
ENVELOPE_SENDER = "bounces@local.example"


@dataclass(frozen=True)
class Case:
    """One mail and the report that came back; the file is called like `name`."""

    name: str
    record_id: int
    #: Which of the servers below takes the mail.
    server: str
    recipients: Sequence[str]
    body: str = "Thank you for your order.\r\n"
    auto_submitted: bool = True


LARGE = "One line of a long mail, again and again.\n" * 1500

CASES = (
    Case("postfix-unknown-user", 1001, "postfix", ["unknown@exim.example"]),
    Case("postfix-forwarded", 1002, "postfix", ["forwarded@local.example"]),
    Case("postfix-unknown-domain", 1003, "postfix", ["moved@local.example"]),
    Case("postfix-mailbox-full", 1004, "postfix", ["full@refusing.example"]),
    Case("postfix-refused-after-data", 1005, "postfix", ["content@refusing.example"]),
    Case("postfix-two-recipients", 1006, "postfix", ["gone@refusing.example", "full@refusing.example"]),
    Case("postfix-reply-of-three-lines", 1007, "postfix", ["lines@refusing.example"]),
    Case("postfix-headers-only", 1008, "postfix", ["gone@refusing.example"], LARGE),
    Case("postfix-utf8-address", 1009, "postfix", ["größe@refusing.example"]),
    Case("postfix-delayed", 1010, "postfix-warning", ["busy@refusing.example"]),
    Case("postfix-expired", 1011, "postfix-impatient", ["busy@refusing.example"]),
    Case("exim-unknown-user", 2001, "exim", ["unknown@local.example"]),
    Case("exim-mailbox-full", 2004, "exim", ["full@refusing.example"]),
    Case("exim-refused-after-data", 2005, "exim", ["content@refusing.example"]),
    Case("exim-two-recipients", 2006, "exim", ["gone@refusing.example", "full@refusing.example"]),
    Case("exim-reply-of-three-lines", 2007, "exim", ["lines@refusing.example"]),
    Case("exim-headers-only", 2008, "exim-brief", ["gone@refusing.example"]),
    Case("exim-utf8-address", 2009, "exim", ["größe@refusing.example"]),
    # Exim warns nobody about a mail that says it was made by a machine.
    Case("exim-delayed", 2010, "exim-warning", ["busy@refusing.example"], auto_submitted=False),
    Case("exim-expired", 2011, "exim-impatient", ["busy@refusing.example"]),
)

REFUSALS = (
    Rule("RCPT TO:<gone@*", "550 5.1.1 <gone@refusing.example>: Recipient address rejected: User unknown"),
    Rule("RCPT TO:<größe@*", "550 5.1.1 no such user"),
    Rule("RCPT TO:<full@*", "552 5.2.2 <full@refusing.example>: the mailbox is full"),
    Rule(
        "RCPT TO:<lines@*",
        "550-5.7.1 This server takes no mail from your network.\r\n"
        "550-5.7.1 Ask the owner of the mailbox,\r\n"
        "550 5.7.1 or see https://refusing.example/policy",
    ),
    Rule("RCPT TO:<busy@*", "451 4.3.2 <busy@refusing.example>: too busy, come back later"),
    Rule("EOD", "554 5.7.1 Message refused by the content filter", recipient="content@"),
)


class Mails:
    """The servers, and the way of a mail to one of them."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        extensions = ("PIPELINING", "8BITMIME", "SMTPUTF8", "ENHANCEDSTATUSCODES")
        refusing = stack.enter_context(ScriptedSmtpServer(REFUSALS, extensions=extensions))
        self.dovecot = stack.enter_context(Dovecot(folder / "dovecot").start())
        lmtp_port = self.dovecot.lmtp_port
        # Each knows the other's port before it is there.
        postfix_routes, exim_routes = ({"refusing.example": refusing.port} for _ in range(2))
        quick = {"minimal_backoff_time": "1s", "maximal_backoff_time": "1s", "queue_run_delay": "1s"}
        self.servers: dict[str, Postfix | Exim] = {
            "postfix": Postfix(folder / "p1", lmtp_port=lmtp_port, routes=postfix_routes),
            "postfix-warning": Postfix(
                folder / "p2", lmtp_port=lmtp_port, routes=postfix_routes, delay_warning_time="1s", **quick
            ),
            "postfix-impatient": Postfix(
                folder / "p3", lmtp_port=lmtp_port, routes=postfix_routes, maximal_queue_lifetime="0", **quick
            ),
            "exim": Exim(folder / "e1", lmtp_port=lmtp_port, routes=exim_routes),
            "exim-warning": Exim(folder / "e2", lmtp_port=lmtp_port, routes=exim_routes, delay_warning="1s"),
            "exim-impatient": Exim(folder / "e3", lmtp_port=lmtp_port, routes=exim_routes, retry="* * F,1s,1s"),
            "exim-brief": Exim(folder / "e4", lmtp_port=lmtp_port, routes=exim_routes, bounce_return_body="false"),
        }
        postfix_routes["exim.example"] = self.servers["exim"].port
        exim_routes["local.example"] = self.servers["postfix"].port
        for server in self.servers.values():
            stack.callback(server.stop)
            server.start()
        self.transport = SmtpTransport(MailTransportSettings(), ehlo_name="shop.example")
        stack.callback(self.transport.close_all)

    def send(self, case: Case) -> None:
        content = mime.MailContent(
            message_id=f"<{case.record_id}.0123456789abcdef01234567@shop.example>",
            date=utc_now(),
            from_address="shop@shop.example",
            from_name="The Shop",
            to=list(case.recipients),
            subject=f"Your order {case.record_id}",
            body_mode=BodyMode.PLAIN,
            body_text=case.body,
            auto_submitted=case.auto_submitted,
        )
        port = self.servers[case.server].port
        server = SmtpServer(config_id=port, revision=0, host="127.0.0.1", port=port, security=Security.PLAIN)
        envelope = Envelope(verp.address(ENVELOPE_SENDER, case.record_id), case.recipients)
        limits = SendLimits(send_budget_seconds=240, send_max_seconds=120, reply_wait_seconds=60)
        gate = SendGate(boot_seconds(), limits, boot_seconds)
        results = self.transport.send(server, envelope, mime.build(content), gate)
        assert all(result.status == "accepted" for result in results.values()), results


def main() -> None:
    """Send all, and write what came back."""
    use_keys((KEY,))
    folder = Path(tempfile.mkdtemp(prefix="bounces-"))
    folder.chmod(0o711)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        mails = Mails(stack, folder)
        for case in CASES:
            mails.send(case)
        left = {case.record_id: case for case in CASES}
        deadline = time.monotonic() + 60
        while left and time.monotonic() < deadline:
            for octets in mails.dovecot.read("bounces"):
                to = next(line for line in octets.split(b"\r\n") if line.lower().startswith(b"to: "))
                case = left.pop(verp.read(to[4:].decode()) or 0, None)
                if case is not None:
                    (FOLDER / f"{case.name}.eml").write_bytes(octets)
            time.sleep(0.1)
    if left:
        sys.exit(f"nothing came back for {[case.name for case in left.values()]}")


if __name__ == "__main__":
    main()
