"""Postfix as the server that our mail goes out by: queues, delivers to mailboxes by LMTP, relays, bounces.

uid_wrapper and nss_wrapper make its processes believe that they are root and its own users.
"""

import socketserver
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tests.far_end import packages
from tests.far_end.unprivileged import Unprivileged, library_path, require_readable_tree

#: What it is called, and the domain of its mailboxes.
HOST_NAME, DOMAIN = "mx.local.example", "local.example"
#: Names of mailboxes that it does not know begin so.
UNKNOWN = "unknown"
#: What it takes for `NAME@DOMAIN` and passes on.
FORWARDED = {"forwarded": "gone@refusing.example", "moved": "ann@nowhere.example"}
MESSAGE_SIZE_LIMIT = 200_000

_WRAPPED = (
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "UID_WRAPPER",
    "UID_WRAPPER_ROOT",
    "NSS_WRAPPER_PASSWD",
    "NSS_WRAPPER_GROUP",
)

_MAIN = """
compatibility_level = 3.6
queue_directory = {home}/queue
data_directory = {home}/data
maillog_file = {home}/log
maillog_file_prefixes = /
daemon_directory = {root}/usr/lib/postfix/sbin
command_directory = {root}/usr/sbin
shlib_directory = {root}/usr/lib/postfix
meta_directory = {root}/etc/postfix
mail_owner = postfix
setgid_group = postdrop
default_privs = pfnone
import_environment = MAIL_CONFIG TZ {wrapped}
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
mynetworks = 127.0.0.0/8
myhostname = {host_name}
mydestination =
alias_maps =
alias_database =
default_database_type = texthash
smtp_dns_support_level = disabled
smtpd_peername_lookup = no
recipient_delimiter = +
message_size_limit = {message_size_limit}
virtual_mailbox_limit = 0
virtual_mailbox_domains = {domain}
virtual_mailbox_maps = regexp:{home}/mailboxes
virtual_alias_maps = regexp:{home}/aliases
virtual_transport = lmtp:inet:127.0.0.1:{lmtp_port}
transport_maps = texthash:{home}/transport
default_transport = error:5.1.2 no such domain here
smtpd_recipient_restrictions = permit_mynetworks, reject
smtpd_end_of_data_restrictions =
smtpd_client_restrictions =
smtpd_sender_restrictions =
smtpd_relay_restrictions = check_policy_service inet:127.0.0.1:{policy_port}, permit_mynetworks, reject
"""

_MASTER = """
{port}     inet  n - n - - smtpd
pickup     unix  n - n 60 1 pickup
cleanup    unix  n - n - 0 cleanup
qmgr       unix  n - n 300 1 qmgr
postlog    unix-dgram n - n - 1 postlogd
rewrite    unix  - - n - - trivial-rewrite
bounce     unix  - - n - 0 bounce
defer      unix  - - n - 0 bounce
trace      unix  - - n - 0 bounce
proxymap   unix  - - n - - proxymap
smtp       unix  - - n - - smtp
lmtp       unix  - - n - - lmtp
anvil      unix  - - n - 1 anvil
scache     unix  - - n - 1 scache
error      unix  - - n - - error
retry      unix  - - n - - error
"""

_QUEUES = (
    *("active", "bounce", "corrupt", "defer", "deferred", "flush", "hold"),
    *("incoming", "maildrop", "pid", "private", "public", "saved", "trace"),
)


class Greylist:
    """A policy server in Postfix's protocol (SMTPD_POLICY_README) that puts off who it is told to, so many times."""

    def __init__(self) -> None:
        #: Recipient -> how often it is still put off.
        self.left: Counter[str] = Counter()
        greylist = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                attributes: dict[str, str] = {}
                for line in self.rfile:
                    name, _, value = line.decode().rstrip("\n").partition("=")
                    if name:
                        attributes[name] = value
                        continue
                    self.wfile.write(f"action={greylist.answer(attributes)}\n\n".encode())
                    attributes = {}

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def answer(self, attributes: Mapping[str, str]) -> str:
        recipient = attributes.get("recipient", "")
        if attributes.get("protocol_state") != "RCPT" or self.left[recipient] <= 0:
            return "DUNNO"
        self.left[recipient] -= 1
        return "450 4.2.0 Greylisted, please try again later"

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Postfix(Unprivileged):
    """Mail for `DOMAIN` goes to LMTP on `lmtp_port`, that of each domain of `routes` to SMTP on its port."""

    def __init__(self, folder: Path, *, lmtp_port: int, routes: Mapping[str, int], **settings: str) -> None:
        """`settings`: lines of main.cf, by name."""
        super().__init__(folder)
        self.greylist = Greylist()
        self._settings = settings
        self._lmtp_port = lmtp_port
        self._routes = routes

    def start(self) -> Self:
        root = require_readable_tree("mail")
        self.make_folders("etc", "data", "queue", *(f"queue/{name}" for name in _QUEUES))
        uid, gid = self.identity.uid, self.identity.gid
        libraries = root / "usr/lib" / packages.MULTIARCH
        # No second name may have the same number: postfix looks for them and refuses.
        passwd = self.write(
            "passwd",
            f"root:x:0:0::/:/bin/sh\npostfix:x:{uid}:{gid}::/:/bin/false\npfnone:x:65532:65532::/:/bin/false\n",
        )
        group = self.write("group", f"root:x:0:\npostfix:x:{gid}:\npostdrop:x:65533:\npfnone:x:65532:\n")
        self.write("mailboxes", f"!/^{UNKNOWN}/ yes\n")
        self.write("aliases", "".join(f"/^{name}@/ {address}\n" for name, address in FORWARDED.items()))
        self.write("transport", "".join(f"{d} smtp:[127.0.0.1]:{port}\n" for d, port in self._routes.items()))
        self.write(
            "etc/main.cf",
            _MAIN.format(
                home=self.folder,
                root=root,
                wrapped=" ".join(_WRAPPED),
                host_name=HOST_NAME,
                domain=DOMAIN,
                message_size_limit=MESSAGE_SIZE_LIMIT,
                lmtp_port=self._lmtp_port,
                policy_port=self.greylist.port,
            )
            + "".join(f"{name} = {value}\n" for name, value in self._settings.items()),
        )
        self.write("etc/master.cf", _MASTER.format(port=f"127.0.0.1:{self.port}"))
        environment = dict(
            zip(
                _WRAPPED,
                (
                    library_path(root / "usr/lib/postfix", libraries, root / "lib" / packages.MULTIARCH),
                    library_path(libraries / "libuid_wrapper.so", libraries / "libnss_wrapper.so"),
                    "1",
                    "1",
                    str(passwd),
                    str(group),
                ),
                strict=True,
            )
        )
        etc = self.folder / "etc"
        self.run([root / "usr/lib/postfix/sbin/master", "-c", etc, "-d"], {**environment, "MAIL_CONFIG": str(etc)})
        self.wait_until(lambda: self.greets(self.port, b"220 "))
        return self

    def stop(self) -> None:
        super().stop()
        self.greylist.stop()
