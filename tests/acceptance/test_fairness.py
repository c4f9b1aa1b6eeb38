"""A tenant with a mountain of mail does not hold up another tenant's single one."""

from sqlalchemy import text

from messaging import tenancy
from tests.acceptance.conftest import Start
from tests.acceptance.records import accept, recipient
from tests.polling import eventually

BACKLOG = 50_000
GREAT, SMALL = 1, 2


def test_a_single_mail_goes_out_before_any_of_50000_that_was_not_handed_out_yet(start: Start) -> None:
    setup = start(mail_workers=2, beats=1, settings={"MULTI_TENANCY": "true"}, has_server=False)
    setup.add_server(tenant_id=tenancy.PLATFORM_TENANT_ID)
    accept(setup, BACKLOG, prefix="great", tenant_id=GREAT)
    setup.smtp.wait_for(500, 90)

    accept(setup, 1, prefix="small", tenant_id=SMALL)
    with setup.engine.connect() as connection:
        handed_out = set(
            connection.execute(
                text(
                    "SELECT jsonb_array_elements_text(to_addresses) FROM mail_send_record"
                    " WHERE tenant_id = :tenant AND version > 0"
                ),
                {"tenant": GREAT},
            ).scalars()
        )
    assert len(handed_out) < BACKLOG
    single = recipient("small0")
    eventually(lambda: any(single in m.recipients for m in setup.smtp.messages), 60, "the single mail goes out")

    order = [m.recipients[0] for m in setup.smtp.messages]
    earlier = order[: order.index(single)]
    assert [to for to in earlier if to not in handed_out] == []
    assert len(setup.smtp.messages) < BACKLOG
