"""The plain Celery task: builds a message and opens a connection for it, as in most projects' first version.

Same Celery, same Valkey, threads pool, events on, early acknowledgement as by default. There is no record: what a lost
broker or a killed worker had is gone. The mails are published before the clock starts.
"""

import os
import smtplib
from email.message import EmailMessage

from celery import Celery
from celery.signals import worker_ready

app = Celery("celery_plain", broker=os.environ.get("BENCH_BROKER_URL"), set_as_current=False)
app.conf.update(
    task_ignore_result=True,
    worker_send_task_events=True,
    worker_hijack_root_logger=False,
    broker_transport_options={"global_keyprefix": "plain:"},
    task_default_queue="plain_mail",
)


@app.task(name="plain.send_mail")
def send_mail(sender: str, to: str, subject: str, text: str, html: str) -> None:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = sender, to, subject
    message.set_content(text)
    message.add_alternative(html, subtype="html")
    with smtplib.SMTP("127.0.0.1", int(os.environ["BENCH_SMTP_PORT"])) as connection:
        connection.send_message(message)


@worker_ready.connect
def say_so(**_: object) -> None:
    """The workers log warnings only, since a line a mail would slow them; this is what the benchmark waits for."""
    print("plain worker ready.", flush=True)
