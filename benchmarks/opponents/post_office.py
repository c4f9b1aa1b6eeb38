"""django-post-office: mails queued in PostgreSQL, sent by `send_queued_mail` with two processes of eight threads each.

`python -m benchmarks.opponents.post_office COUNT PROCESSES` migrates, queues COUNT mails and drains them, then prints
the seconds of the drain. Loading Django and queueing are not in the time. Its outcomes are written once a batch: a kill
repeats up to a whole batch, where ours repeats what was on the wire.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

import django

from benchmarks.harness.mail import HTML, SENDER, SUBJECT, TEXT, recipient


def queue(count: int) -> None:
    from post_office import mail

    for start in range(0, count, 1000):
        mail.send_many(
            [
                {
                    "sender": SENDER,
                    "recipients": [recipient(n)],
                    "subject": SUBJECT,
                    "message": TEXT,
                    "html_message": HTML,
                }
                for n in range(start, min(start + 1000, count))
            ]
        )


def drain(processes: int) -> float:
    """Seconds until the queue is empty and every mail is marked as sent."""
    from post_office.mail import send_queued_mail_until_done
    from post_office.models import STATUS, Email

    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        send_queued_mail_until_done(str(Path(folder) / "lock"), processes=processes)
        seconds = time.perf_counter() - started
    assert not Email.objects.exclude(status=STATUS.sent).exists(), "a mail was not sent"
    return seconds


def main(count: int, processes: int) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchmarks.opponents.post_office_settings")
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    queue(count)
    print(drain(processes))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
