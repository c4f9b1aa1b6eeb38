"""A mail from a template against the same mail with its bodies given: end to end, and at acceptance.

Measured: from the commit that makes mails due to the last SENT, as time a mail, one system for both in turn; the
template's html and text render to about the 2 KB of the other's, and each mail's write-back carries them. At acceptance
the rate of one mail a transaction, with the template's variables in the place of the bodies.

What would make it lie: a template that renders to less than the given bodies (checked); records that fail to render
(the sink counts).
"""

import json
from collections.abc import Iterator
from functools import partial
from itertools import count

import sqlalchemy as sa
from sqlalchemy.orm import Session

from benchmarks.acceptance import rate
from benchmarks.drain import Ours
from benchmarks.harness.database import Database, mail_request
from benchmarks.harness.figure import Figure, at_least, at_most, compare, exactly, interleave, medians
from benchmarks.harness.mail import HTML, LINES, TEXT, recipient
from benchmarks.harness.stand import Stand
from messaging import api
from messaging.mail.models import MAIL_TEMPLATE
from messaging.requests import BodyMode, SendMail

MAILS = 3000
SINGLES = 300
CODE = "receipt"

SUBJECT = "Your order {{ order }} is on its way"
_ROWS = {
    "html": (
        "".join(f"<tr><td>{n} x</td><td>{name}</td><td>{price} EUR</td></tr>\n" for name, n, price in LINES).strip(),
        "{% for line in lines %}<tr><td>{{ line.count }} x</td><td>{{ line.name }}</td>"
        "<td>{{ line.price }} EUR</td></tr>"
        "{{ '\\n' if not loop.last }}{% endfor %}",
    ),
    "text": (
        "\n".join(f"{n} x {name}: {price} EUR" for name, n, price in LINES),
        "{% for line in lines %}{{ line.count }} x {{ line.name }}: {{ line.price }} EUR"
        "{{ '\\n' if not loop.last }}{% endfor %}",
    ),
}
VARIABLES = {"order": 20417, "lines": [{"name": name, "count": n, "price": price} for name, n, price in LINES]}


def source(body: str, kind: str) -> str:
    """A body with its rows as a loop and its order's number as a variable."""
    rows, loop = _ROWS[kind]
    assert rows in body
    return body.replace(rows, loop).replace("20417", "{{ order }}")


def run(stand: Stand) -> Iterator[Figure]:
    database = stand.database("templated")
    add_template(database)
    given = {}
    templated = dict.fromkeys(("subject", "body_mode", "body_html", "body_text"), "NULL") | {
        "template_code": f"'{CODE}'",
        "template_variables": f"'{json.dumps(VARIABLES)}'",
    }
    with stand.system("templated") as system:
        system.pause()
        ours = Ours(stand.sink, database, system)

        def drain(values: dict[str, str], mails: int = MAILS) -> float:
            return ours.drain(database.pending(mails, values), mails)

        for values in (given, templated):
            drain(values, 500)
        written = database.scalar("SELECT min(length(body_html) + length(body_text)) FROM mail_send_record")
        assert written == len(HTML) + len(TEXT), written
        results = medians(interleave({"given": partial(drain, given), "templated": partial(drain, templated)}))
    yield compare(
        "mail from a template, end to end",
        "us a mail",
        1e6 / results["templated"],
        1e6 / results["given"],
        "bodies given",
        at_most(1.5),
    )
    yield Figure(
        "mails from templates, sink count",
        ours.taken,
        "mails",
        against=f"records accepted: {ours.accepted}",
        ratio=ours.taken / ours.accepted,
        bar=exactly(1),
    )
    yield acceptance(database)


def add_template(database: Database) -> None:
    """The template whose rendering is the mail that is otherwise given."""
    with database.engine.begin() as connection:
        connection.execute(
            sa.insert(MAIL_TEMPLATE).values(
                code=CODE,
                name="Receipt",
                subject=SUBJECT,
                body_html=source(HTML, "html"),
                body_text=source(TEXT, "text"),
                body_mode=BodyMode.HTML_WITH_AUTHORED_PLAIN,
            )
        )


def acceptance(database: Database) -> Figure:
    """One mail a transaction, by template and with bodies."""
    database.use()
    number = count()

    def accept(request: SendMail) -> None:
        with Session(database.engine) as session:
            api.send_mail(request, session=session)
            session.commit()

    def templated() -> None:
        accept(SendMail(to=[recipient(next(number))], template_code=CODE, template_variables=VARIABLES))

    contenders = {
        "templated": rate(templated, SINGLES, 1),
        "given": rate(lambda: accept(mail_request(next(number))), SINGLES, 1),
    }
    for contender in contenders.values():
        contender()
    results = medians(interleave(contenders, rounds=9))
    # As fast; two runs of the same differ by as much.
    return compare(
        "acceptance by template", "mails/s", results["templated"], results["given"], "with bodies", at_least(0.95)
    )
