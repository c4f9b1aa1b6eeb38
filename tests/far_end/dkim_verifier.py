"""Perl's Mail::DKIM, unpacked from Debian: a verifier that shares no line with what signs here."""

import subprocess
from pathlib import Path

from tests.far_end import packages


def verify(message: bytes, *, domain: str, selector: str, record: str) -> str:
    """`pass`, or how it failed; `record` is what the domain's TXT record for the selector says.

    Knows RSA alone. Skips the test where the package is missing, or perl.
    """
    root = packages.require_tree("dkim")
    folders = [root / "usr/share/perl5", *root.glob(f"usr/lib/{packages.MULTIARCH}/perl5/*")]
    done = subprocess.run(
        ["perl", Path(__file__).with_name("verify_dkim.pl"), f"{selector}._domainkey.{domain}", record],
        input=message,
        env={"PATH": "/usr/bin:/bin", "PERL5LIB": ":".join(map(str, folders))},
        capture_output=True,
        timeout=30,
        check=True,
    )
    return done.stdout.decode().strip()
