"""The picture of the console in README and docs: made anew by this test, and kept where the others are.

To show a console that has changed: run it, then `cp .screenshots/console.png docs/img/console.png`.
"""

import pytest
from sqlalchemy import Engine, text

from messaging import api, tenancy
from messaging.access.roles import Role
from tests.integration.web.console import stories
from tests.integration.web.console.browser.conftest import PICTURES, Keep, OpenTab

pytestmark = pytest.mark.xdist_group("browser")

#: What a picture in the repository may weigh, in octets.
MAX_OCTETS = 150_000

#: What a shop sends in a minute: status, subject, template, recipient, what the other side said.
MAILS: tuple[tuple[str, str, str, str, str | None], ...] = (
    ("SENT", "Order 4711", "order-confirmed", "ann@example.org", None),
    ("SENT", "Your password", "password-reset", "bea@example.net", None),
    ("RETRY", "Order 4712", "order-confirmed", "carl@example.com", "451 4.7.1 Greylisted, please try again"),
    ("SENT", "Invoice 2091", "invoice", "dora@example.org", None),
    ("FAILED", "Order 4713", "order-confirmed", "emil@example.net", "550 5.1.1 User unknown"),
    ("SENDING", "Order 4714", "order-confirmed", "fay@example.com", None),
    ("SENT", "On its way", "shipped", "gus@example.org", None),
    ("DEAD_LETTER", "Invoice 2092", "invoice", "hal@example.net", "452 4.2.2 Mailbox full"),
    ("PENDING", "Order 4715", "order-confirmed", "ida@example.com", None),
)


def test_the_picture_of_the_documentation(engine: Engine, open_tab: OpenTab, keep: Keep) -> None:
    with tenancy.tenant(7):
        for code in {template for _, _, template, _, _ in MAILS}:
            api.add_mail_template(code=code, name=code, subject="{{ subject }}", body_text="Hello")
    for status, subject, template, address, said in (*MAILS, *MAILS[:7]):
        mail_id = stories.mail(engine, status=status, subject=subject, template_code=template, to=[address], said=said)
        error = "SMTP_" + "_".join(said.split()[:2]) if said else None
        with engine.begin() as connection:
            connection.execute(
                text("UPDATE mail_send_record SET error_code = :c WHERE id = :i"), {"c": error, "i": mail_id}
            )
    tab = open_tab(Role.OPERATOR, viewport={"width": 1280, "height": 660}, color_scheme="light")
    for _, subject, _, _, _ in MAILS:
        assert tab.get_by_text(subject).first.is_visible()
    keep(tab, "console")
    assert (PICTURES / "console.png").stat().st_size < MAX_OCTETS
