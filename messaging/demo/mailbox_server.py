"""The shop's mailbox in the demo: a program that serves one user's mails over IMAP, and forgets them at its end."""

import argparse
import os
import sys

#: The one user.
USER = "orders"
#: Where the program finds the user's password: a command line is seen by every user of the machine.
PASSWORD_VARIABLE = "MAILBOX_SERVER_PASSWORD"  # noqa: S105  # a name


def main() -> None:
    """The program: `python -m messaging.demo.mailbox_server PORT`; listens on 127.0.0.1."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("port", type=int)
    port = parser.parse_args().port
    listens = ["--host", "127.0.0.1", "--port", str(port), "--no-tls"]
    keeps = ["dict", "--demo-user", USER, "--demo-password", os.environ[PASSWORD_VARIABLE]]
    from pymap.main import main as serve

    sys.argv = ["pymap", *listens, *keeps]  # its only way in
    serve()


if __name__ == "__main__":
    main()
