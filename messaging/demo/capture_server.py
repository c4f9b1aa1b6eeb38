"""The mail server of the demo: a program that takes mail over SMTP (RFC 5321), keeps each as a file and delivers none.

By the recipient's domain it also refuses for good, refuses twice and then takes, or takes a message and keeps the reply
to itself. Where recipients lie elsewhere, it puts what is said of their mails into the shop's mailbox: a bounce, a read
receipt, a vacation reply. What happened is appended to a journal, one JSON object a line, which is the demo's proof of
what arrived.
"""

import argparse
import asyncio
import json
import os
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email import message_from_bytes
from email.policy import default
from pathlib import Path
from typing import Any

from messaging.demo.answers import Answer, Taken, compose
from messaging.demo.inbox import Inbox, NotPut
from messaging.demo.mailbox_server import PASSWORD_VARIABLE, USER

#: Every recipient here is unknown: 550 5.1.1.
REFUSED_DOMAIN = "closed.example.net"
#: Greylisted: refused with 450 4.2.0 so many times, then taken.
GREYLISTED_DOMAIN = "busy.example.net"
GREYLISTED_TIMES = 2
#: The first message is taken, kept, and not answered for a while: who is killed now cannot know that it was taken.
SILENT_DOMAIN = "slow.example.net"
#: Seconds of that silence, unless the client goes away; longer than a client waits.
SILENCE_SECONDS = 20.0
#: What comes back of mails for these domains, which are taken first.
ANSWERING_DOMAINS = {
    "moved.example.net": Answer.BOUNCED,
    "reading.example.net": Answer.READ,
    "away.example.net": Answer.REPLIED,
}
#: Seconds from the taking of a mail to its answer, and until one that could not be put into the mailbox is repeated.
ANSWER_SECONDS = 0.5
#: How often one is tried at most.
MAX_ANSWER_TRIES = 60

#: Octets of one message, announced by SIZE (RFC 1870).
MAX_MESSAGE_BYTES = 10_000_000
#: Seconds without a command after which a connection is closed (RFC 5321, 4.5.3.2.7 asks for five minutes).
IDLE_SECONDS = 300.0

_PATH = re.compile(r"(?i)(?:FROM|TO):\s*<([^>]*)>")


@dataclass(slots=True)
class _Envelope:
    sender: str | None = None
    recipients: list[str] = field(default_factory=list)


class CaptureServer:
    """Takes mail into `folder`, writes `journal`, and puts answers into `inbox`; None: nothing ever comes back."""

    def __init__(self, folder: Path, journal: Path, inbox: Inbox | None = None) -> None:
        self._folder = folder
        self._journal = journal
        self._inbox = inbox
        self._answers: set[asyncio.Task[None]] = set()
        self._refusals: Counter[str] = Counter()
        self._silenced: set[str] = set()
        self._taken = sum(1 for _ in folder.glob("*.eml"))

    async def serve(self, port_path: Path) -> None:
        """Listen on 127.0.0.1 until cancelled: on the port that `port_path` names, else on a free one, noted there."""
        port = int(port_path.read_text()) if port_path.exists() else 0
        server = await asyncio.start_server(self._talk, "127.0.0.1", port, limit=MAX_MESSAGE_BYTES)
        fresh = port_path.with_suffix(".new")
        fresh.write_text(str(server.sockets[0].getsockname()[1]))
        fresh.rename(port_path)  # whole or not there
        async with server:
            await server.serve_forever()

    def _note(self, event: str, **facts: Any) -> None:
        with self._journal.open("a") as journal:
            journal.write(json.dumps({"event": event, **facts}) + "\n")

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            await _Dialogue(self, reader, writer).run()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    def answer_recipient(self, recipient: str, client: str) -> str:
        """The reply to RCPT TO."""
        domain = recipient.rpartition("@")[2].lower()
        if domain == REFUSED_DOMAIN:
            self._note("refused", recipient=recipient, client=client)
            return "550 5.1.1 no such mailbox here"
        if domain == GREYLISTED_DOMAIN and self._refusals[recipient] < GREYLISTED_TIMES:
            self._refusals[recipient] += 1
            self._note("deferred", recipient=recipient, client=client)
            return "450 4.2.0 greylisted, try again later"
        return "250 2.1.5 ok"

    def keep(self, envelope: _Envelope, content: bytes, client: str) -> bool:
        """Store a message; answers whether its reply is to be kept back."""
        self._taken += 1
        path = self._folder / f"{self._taken:04}.eml"
        path.write_bytes(content)
        headers = message_from_bytes(content.partition(b"\r\n\r\n")[0] + b"\r\n\r\n", policy=default)
        silent = [r for r in envelope.recipients if r.endswith(f"@{SILENT_DOMAIN}") and r not in self._silenced]
        self._silenced.update(silent)
        self._note(
            "taken",
            message_id=str(headers["Message-ID"]).strip(),
            recipients=envelope.recipients,
            file=path.name,
            client=client,
            is_answered=not silent,
        )
        for recipient in envelope.recipients:
            answer = ANSWERING_DOMAINS.get(recipient.rpartition("@")[2])
            if self._inbox is not None and answer is not None and envelope.sender:
                saying = self._say_later(self._inbox, answer, envelope.sender, recipient, content)
                task = asyncio.create_task(saying)
                self._answers.add(task)
                task.add_done_callback(self._answers.discard)
        return bool(silent)

    async def _say_later(self, inbox: Inbox, answer: Answer, sender: str, recipient: str, content: bytes) -> None:
        """What a far side says some time after it took a mail."""
        for _ in range(MAX_ANSWER_TRIES):
            await asyncio.sleep(ANSWER_SECONDS)
            mail = compose(answer, Taken(sender, recipient, content, datetime.now(UTC)))
            if mail is None:
                return
            try:
                await asyncio.to_thread(inbox.put, mail)
            except NotPut as exc:
                self._note("not answered", recipient=recipient, answer=answer, error=str(exc))
                continue
            self._note("answered", recipient=recipient, answer=answer)
            return


class _Dialogue:
    """One connection."""

    def __init__(self, server: CaptureServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._server = server
        self._reader = reader
        self._writer = writer
        self._envelope = _Envelope()
        #: What the client calls itself in EHLO.
        self._client = ""

    async def run(self) -> None:
        await self._say("220 demo.example.net ESMTP, captures all and delivers nothing")
        while True:
            line = await asyncio.wait_for(self._reader.readuntil(b"\r\n"), IDLE_SECONDS)
            verb, _, argument = line.decode("utf-8", "replace").strip().partition(" ")
            if verb.upper() == "QUIT":
                await self._say("221 2.0.0 bye")
                return
            await self._say(*await self._answer(verb.upper(), argument))

    async def _say(self, *lines: str) -> None:
        for position, line in enumerate(lines):
            code, words = line[:3], line[4:]
            self._writer.write(f"{code}{' ' if position == len(lines) - 1 else '-'}{words}\r\n".encode())
        await self._writer.drain()

    async def _answer(self, verb: str, argument: str) -> Sequence[str]:
        match verb:
            case "EHLO" | "HELO":
                self._client, self._envelope = argument, _Envelope()
                offered = ("PIPELINING", f"SIZE {MAX_MESSAGE_BYTES}", "8BITMIME", "SMTPUTF8", "ENHANCEDSTATUSCODES")
                return ["250 demo.example.net", *(f"250 {o}" for o in offered if verb == "EHLO")]
            case "MAIL":
                return [self._mail(argument)]
            case "RCPT":
                return [self._recipient(argument)]
            case "DATA":
                return [await self._data()]
            case "RSET":
                self._envelope = _Envelope()
                return ["250 2.0.0 ok"]
            case "NOOP":
                return ["250 2.0.0 ok"]
        return ["502 5.5.1 not implemented here"]

    def _mail(self, argument: str) -> str:
        path = _PATH.match(argument)
        if path is None:
            return "501 5.5.4 MAIL FROM:<address> is needed"
        if self._envelope.sender is not None:
            return "503 5.5.1 one sender a message"
        self._envelope = _Envelope(path[1])
        return "250 2.1.0 ok"

    def _recipient(self, argument: str) -> str:
        path = _PATH.match(argument)
        if path is None:
            return "501 5.5.4 RCPT TO:<address> is needed"
        if self._envelope.sender is None:
            return "503 5.5.1 MAIL first"
        reply = self._server.answer_recipient(path[1], self._client)
        if reply.startswith("250"):
            self._envelope.recipients.append(path[1])
        return reply

    async def _data(self) -> str:
        if not self._envelope.recipients:
            return "554 5.5.1 no valid recipients"
        await self._say("354 go ahead, and end with a dot")
        lines: list[bytes] = []
        size = 0
        while (line := await asyncio.wait_for(self._reader.readuntil(b"\r\n"), IDLE_SECONDS)) != b".\r\n":
            size += len(line)
            if size <= MAX_MESSAGE_BYTES:
                lines.append(line[1:] if line.startswith(b".") else line)  # RFC 5321, 4.5.2
        envelope, self._envelope = self._envelope, _Envelope()
        if size > MAX_MESSAGE_BYTES:
            return f"552 5.3.4 more than {MAX_MESSAGE_BYTES} octets"
        if self._server.keep(envelope, b"".join(lines), self._client):
            # The client's end is read here, so that its going away ends the silence.
            await asyncio.wait_for(self._reader.read(1), SILENCE_SECONDS)
            raise ConnectionResetError
        return "250 2.0.0 taken"


def main() -> None:
    """The program: `python -m messaging.demo.capture_server FOLDER JOURNAL PORT_FILE [--mailbox-port PORT]`."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    for name in ("folder", "journal", "port_file"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--mailbox-port", type=int, help="where the shop's mailbox is served over IMAP")
    given = parser.parse_args()
    inbox = None
    if given.mailbox_port is not None:
        inbox = Inbox(given.mailbox_port, USER, os.environ[PASSWORD_VARIABLE])
    asyncio.run(CaptureServer(given.folder, given.journal, inbox).serve(given.port_file))


if __name__ == "__main__":
    main()
