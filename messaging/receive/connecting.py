"""A socket to a mailbox's server, with TLS where the mailbox says so; what is said over it is `imap`'s and `pop3`'s."""

import socket
import ssl
import time
from collections.abc import Callable

from messaging.clock import Ticker
from messaging.receive.login import Login
from messaging.settings import MailTransportSettings
from messaging.tcp import Connector


class MailboxConnector:
    """Connects to mail servers; one per process, any thread."""

    def __init__(
        self,
        limits: MailTransportSettings,
        *,
        ticker: Ticker = time.monotonic,
        ssl_context_factory: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    ) -> None:
        self.limits = limits
        self.ticker = ticker
        self._ssl_context_factory = ssl_context_factory
        self._ssl_context: ssl.SSLContext | None = None
        self._connector = Connector(ticker)

    def connect(self, login: Login) -> socket.socket:
        """Within the time for a connection, look-up and handshake included; each read may then take its own.

        The certificate is verified, its name too.

        Raises: OSError, of which ssl.SSLError and TimeoutError are kinds.
        """
        began, timeout_seconds = self.ticker(), self.limits.connection_timeout_seconds
        connected = self._connector.connect(login.host, login.port, timeout_seconds)
        try:
            if login.is_tls:
                connected.settimeout(max(0.01, began + timeout_seconds - self.ticker()))
                # The dot that ends an absolute name is for the look-up alone: no certificate has it.
                connected = self._tls().wrap_socket(connected, server_hostname=login.host.rstrip("."))
            connected.settimeout(self.limits.read_timeout_seconds)
        except BaseException:
            connected.close()
            raise
        return connected

    def _tls(self) -> ssl.SSLContext:
        # Loading the certificate authorities takes longer than a handshake: once per process.
        if self._ssl_context is None:
            self._ssl_context = self._ssl_context_factory()
        return self._ssl_context
