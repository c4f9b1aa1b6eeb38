"""Puts mails into the shop's mailbox, as the mail server that hosts it would. Blocks for seconds at most."""

import imaplib
import time
from dataclasses import dataclass, field

#: Seconds for each answer of the server.
TIMEOUT_SECONDS = 5.0


class NotPut(Exception):
    """The server is not there, or does not take it."""


@dataclass(frozen=True, slots=True)
class Inbox:
    """One user's, on 127.0.0.1."""

    port: int
    user: str
    password: str = field(repr=False)

    def put(self, mail: bytes) -> None:
        """Append a mail, as of now. Raises: NotPut."""
        try:
            with imaplib.IMAP4("127.0.0.1", self.port, timeout=TIMEOUT_SECONDS) as client:
                client.login(self.user, self.password)
                answer, said = client.append("INBOX", "", imaplib.Time2Internaldate(time.time()), mail)
        except (OSError, imaplib.IMAP4.error) as exc:
            raise NotPut(str(exc)) from exc
        if answer != "OK":
            raise NotPut(f"{answer} {said!r}")
