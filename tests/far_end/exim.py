"""Exim as a second server that our mail may go out by: its bounces have another shape than Postfix's."""

from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tests.far_end import packages
from tests.far_end.unprivileged import Unprivileged, library_path, require_readable_tree

#: What it is called, and the domain of its mailboxes.
HOST_NAME, DOMAIN = "mx.exim.example", "exim.example"
#: Names of mailboxes that it does not know begin so.
UNKNOWN = "unknown"

_WRAPPED = ("LD_LIBRARY_PATH", "LD_PRELOAD", "NSS_WRAPPER_PASSWD", "NSS_WRAPPER_GROUP", "RESOLV_WRAPPER_HOSTS")

_CONFIG = """
exim_path = {root}/usr/sbin/exim4
exim_user = {uid}
exim_group = {gid}
never_users =
deliver_drop_privilege = true
keep_environment = {wrapped}
spool_directory = {home}/spool
log_file_path = {home}/spool/%slog
primary_hostname = {host_name}
domainlist local = {domain}
local_interfaces = <; [127.0.0.1]:{port}
pid_file_path = {home}/pid
tls_advertise_hosts =
hosts_treat_as_local = 127.0.0.1
helo_accept_junk_hosts = *
host_lookup =
rfc1413_hosts =
queue_run_max = 2
smtp_accept_max = 50
{settings}
acl_smtp_rcpt = recipients
acl_smtp_data = messages
begin acl
recipients:
  require verify = recipient
  accept
messages:
  accept
    add_header = :at_start:${{authresults {{{host_name}}}}}
begin routers
unknown:
  driver = redirect
  domains = +local
  local_parts = ^{unknown}
  allow_fail
  data = :fail: Unknown user
mailboxes:
  driver = accept
  domains = +local
  transport = mailbox
{routes}
begin transports
mailbox:
  driver = smtp
  protocol = lmtp
  hosts = 127.0.0.1
  hosts_override
  allow_localhost
  port = {lmtp_port}
{transports}
begin retry
{retry}
"""

_ROUTE = """
to_{port}:
  driver = manualroute
  domains = {domain}
  transport = to_{port}
  route_list = * 127.0.0.1
  self = send
"""

_TRANSPORT = """
to_{port}:
  driver = smtp
  port = {port}
  allow_localhost
  hosts_override
  hosts = 127.0.0.1
"""


class Exim(Unprivileged):
    """Mail for `DOMAIN` goes to LMTP on `lmtp_port`, that of each domain of `routes` to SMTP on its port."""

    def __init__(
        self, folder: Path, *, lmtp_port: int, routes: Mapping[str, int], retry: str = "* * F,1h,1m", **settings: str
    ) -> None:
        """`retry` is its rule for what was put off; `settings` are main options."""
        super().__init__(folder)
        self._retry = retry
        self._settings = settings
        self._lmtp_port = lmtp_port
        self._routes = routes
        self.log_path = folder / "spool/mainlog"

    def start(self) -> Self:
        root = require_readable_tree("exim")
        self.make_folders("spool")
        uid, gid = self.identity.uid, self.identity.gid
        libraries = root / "usr/lib" / packages.MULTIARCH
        passwd = self.write(
            "passwd",
            f"root:x:0:0::/:/bin/sh\nDebian-exim:x:{uid}:{gid}::/:/bin/false\nmail:x:8:8::/:/bin/false\n",
        )
        group = self.write("group", f"root:x:0:\nDebian-exim:x:{gid}:\nmail:x:8:\n")
        config = self.write(
            "exim.conf",
            _CONFIG.format(
                root=root,
                home=self.folder,
                uid=uid,
                gid=gid,
                wrapped=" : ".join(_WRAPPED),
                host_name=HOST_NAME,
                domain=DOMAIN,
                unknown=UNKNOWN,
                retry=self._retry,
                settings="\n".join(f"{name} = {value}" for name, value in self._settings.items()),
                port=self.port,
                lmtp_port=self._lmtp_port,
                routes="".join(_ROUTE.format(domain=d, port=port) for d, port in self._routes.items()),
                transports="".join(_TRANSPORT.format(port=port) for port in self._routes.values()),
            ),
        )
        self.publish({})
        environment = {
            "LD_LIBRARY_PATH": library_path(libraries, root / "lib" / packages.MULTIARCH),
            "LD_PRELOAD": library_path(libraries / "libnss_wrapper.so", libraries / "libresolv_wrapper.so"),
            "NSS_WRAPPER_PASSWD": str(passwd),
            "NSS_WRAPPER_GROUP": str(group),
            "RESOLV_WRAPPER_HOSTS": str(self.folder / "dns"),
        }
        self.run([root / "usr/sbin/exim4", "-C", config, "-bdf", "-q2s"], environment)
        self.wait_until(lambda: self.greets(self.port, b"220 "))
        return self

    def publish(self, records: Mapping[str, str]) -> None:
        """Make these the TXT records that it finds, by name; each of at most 255 characters."""
        self.write("dns", "".join(f"TXT {name} {text}\n" for name, text in records.items()))
