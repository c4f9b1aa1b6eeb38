"""Dovecot as the mailboxes behind a mail server: takes mail by LMTP for whatever name, shows it by IMAP and POP3."""

import imaplib
import re
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

import trustme

from messaging.embedded.server import free_port
from tests.far_end import packages
from tests.far_end.unprivileged import POLL_SECONDS, Unprivileged, library_path, require_readable_tree

PASSWORD = "dovecot"

#: Compiled-in places -> what is looked for instead, from the folder the processes run in.
_PLACES = ((b"/usr/lib/dovecot/modules\0", b"modules"), (b"/usr/bin/doveconf\0", b"./doveconf"))

_COMMON = """
base_dir = {home}/base
state_dir = {home}/state
log_path = {home}/log
listen = 127.0.0.1
hostname = mail.local.example
libexec_dir = {root}/usr/lib/dovecot
mail_plugin_dir = {root}/usr/lib/dovecot/modules
default_login_user = {user}
default_internal_user = {user}
default_internal_group = {group}
first_valid_uid = 0
first_valid_gid = 0
mail_fsync = never
mail_max_userip_connections = 100
auth_failure_delay = 0
recipient_delimiter = +
namespace inbox {{
  inbox = yes
  separator = /
}}
service anvil {{
  chroot =
  # A wrong password costs the next login from the same address nothing.
  unix_listener anvil-auth-penalty {{
    mode = 0
  }}
}}
service stats {{
  chroot =
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {imap_port}
  }}
  inet_listener imaps {{
    port = {imaps_port}
    ssl = yes
  }}
}}
service pop3-login {{
  chroot =
  inet_listener pop3 {{
    port = {pop3_port}
  }}
  inet_listener pop3s {{
    port = {pop3s_port}
    ssl = yes
  }}
}}
service lmtp {{
  inet_listener lmtp {{
    port = {lmtp_port}
  }}
}}
"""

_OF_2_3 = """
import_environment = TZ LD_LIBRARY_PATH
protocols = imap pop3 lmtp
disable_plaintext_auth = no
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={uid} gid={gid} home={home}/mail/%u
}}
mail_location = mdbox:~/mdbox
protocol lmtp {{
  auth_username_format = %n
}}
"""

#: With a certificate, and without.
_TLS_OF_2_3 = """
ssl = yes
ssl_cert = <{home}/tls.crt
ssl_key = <{home}/tls.key
"""
_TLS_OF_2_4 = """
ssl = yes
ssl_server_cert_file = {home}/tls.crt
ssl_server_key_file = {home}/tls.key
"""
_NO_TLS = "ssl = no\n"

#: With access tokens, and without.
_TOKENS_OF_2_3 = """
auth_mechanisms = plain xoauth2
passdb {{
  driver = oauth2
  mechanisms = xoauth2
  args = {home}/oauth2.conf
}}
"""
_TOKENS_OF_2_4 = """
auth_mechanisms = plain xoauth2
oauth2_tokeninfo_url = {tokeninfo_url}
oauth2_username_attribute = email
"""
_NO_TOKENS = "auth_mechanisms = plain\n"

_OF_2_4_FIRST = """dovecot_config_version = 2.4.1
dovecot_storage_version = 2.4.1
"""
_OF_2_4 = """
import_environment {{
  LD_LIBRARY_PATH = {library_path}
}}
protocols {{
  imap = yes
  pop3 = yes
  lmtp = yes
}}
auth_allow_cleartext = yes
passdb static {{
  password = {password}
}}
userdb static {{
  fields {{
    uid = {uid}
    gid = {gid}
    home = {home}/mail/%{{user}}
  }}
}}
mail_driver = mdbox
mail_path = ~/mdbox
protocol lmtp {{
  auth_username_format = %{{user | username}}
  lmtp_user_concurrency_limit = unlimited
}}
"""


class Dovecot(Unprivileged):
    """`port` is IMAP's. Every name is a user, with the same password; mail to `name+detail` goes to `name`."""

    def __init__(
        self, folder: Path, *, certificate: trustme.LeafCert | None = None, tokeninfo_url: str | None = None
    ) -> None:
        """`certificate`: TLS at `imaps_port` and `pop3s_port`; `tokeninfo_url`, up to the token: whose a token is."""
        super().__init__(folder)
        self.lmtp_port = free_port()
        self.pop3_port = free_port()
        self.imaps_port, self.pop3s_port = (free_port(), free_port()) if certificate is not None else (0, 0)
        self._certificate = certificate
        self._tokeninfo_url = tokeninfo_url

    def start(self) -> Self:
        root = require_readable_tree("dovecot")
        self.make_folders("base", "state", "mail", "lib")
        library = (root / "usr/lib/dovecot/libdovecot.so.0").resolve()
        octets = library.read_bytes()
        for old, new in _PLACES:
            assert octets.count(old) == 1
            octets = octets.replace(old, new.ljust(len(old), b"\0"))
        (self.folder / "lib/libdovecot.so.0").write_bytes(octets)
        (self.folder / "base/modules").symlink_to(root / "usr/lib/dovecot/modules")
        (self.folder / "base/doveconf").symlink_to(root / "usr/bin/doveconf")
        libraries = library_path(
            self.folder / "lib",
            root / "usr/lib/dovecot",
            root / "usr/lib/dovecot/modules/old-stats",
            root / "usr/lib" / packages.MULTIARCH,
            root / "lib" / packages.MULTIARCH,
        )
        version = subprocess.run(
            [root / "usr/sbin/dovecot", "--version"],
            env={"LD_LIBRARY_PATH": libraries},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        template = self._template(is_2_3=version.startswith("2.3."))
        if self._certificate is not None:
            chain = b"".join(pem.bytes() for pem in self._certificate.cert_chain_pems)
            self.write("tls.crt", chain.decode())
            self.write("tls.key", self._certificate.private_key_pem.bytes().decode())
        if self._tokeninfo_url is not None:
            self.write("oauth2.conf", f"tokeninfo_url = {self._tokeninfo_url}\nusername_attribute = email\n")
        config = self.write(
            "dovecot.conf",
            template.format(
                home=self.folder,
                root=root,
                user=self.identity.user,
                group=self.identity.group,
                uid=self.identity.uid,
                gid=self.identity.gid,
                imap_port=self.port,
                lmtp_port=self.lmtp_port,
                imaps_port=self.imaps_port,
                pop3_port=self.pop3_port,
                pop3s_port=self.pop3s_port,
                tokeninfo_url=self._tokeninfo_url,
                library_path=libraries,
                password=PASSWORD,
            ),
        )
        environment = {"HOME": str(self.folder), "LD_LIBRARY_PATH": libraries}
        self._doveadm = ([root / "usr/bin/doveadm", "-c", config], environment)
        self.run([root / "usr/sbin/dovecot", "-F", "-c", config], environment, cwd=self.folder / "base")
        greetings = {self.port: b"* OK", self.lmtp_port: b"220 ", self.pop3_port: b"+OK"}
        self.wait_until(lambda: all(self.greets(port, greeting) for port, greeting in greetings.items()))
        return self

    def _template(self, *, is_2_3: bool) -> str:
        tls, tokens = _NO_TLS, _NO_TOKENS
        if self._certificate is not None:
            tls = _TLS_OF_2_3 if is_2_3 else _TLS_OF_2_4
        if self._tokeninfo_url is not None:
            tokens = _TOKENS_OF_2_3 if is_2_3 else _TOKENS_OF_2_4
        if is_2_3:
            return f"{_COMMON}{tls}{tokens}{_OF_2_3}"
        return f"{_OF_2_4_FIRST}{_COMMON}{tls}{tokens}{_OF_2_4}"

    def read(self, user: str, *, count: int = 1, seconds: float = 10) -> list[bytes]:
        """The messages in the user's inbox, oldest first, once there are at least `count`.

        Raises: TimeoutError.
        """
        deadline = time.monotonic() + seconds
        with imaplib.IMAP4("127.0.0.1", self.port, timeout=10) as client:
            client.login(user, PASSWORD)
            while True:
                _, answer = client.select("INBOX", readonly=True)
                if int(answer[0] or b"0") >= count:
                    break
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{user} has {answer[0]!r} messages, not {count}")
                time.sleep(POLL_SECONDS)
            _, found = client.fetch("1:*", "(BODY.PEEK[])")
            with suppress(imaplib.IMAP4.abort):
                client.close()
        return [part[1] for part in found if isinstance(part, tuple) and re.search(rb"BODY\[\]", part[0])]

    def doveadm(self, *arguments: str) -> str:
        """What doveadm says, as the server's user. Raises: subprocess.CalledProcessError."""
        program, environment = self._doveadm
        ran = subprocess.run(
            [*program, *arguments],
            env=environment,
            cwd=self.folder / "base",
            user=self.identity.uid,
            group=self.identity.gid,
            capture_output=True,
            text=True,
            check=True,
        )
        return ran.stdout
