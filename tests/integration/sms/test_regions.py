"""A route's and a binding's country is normalised and checked in whatever way the row is saved (R22)."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, func, insert, select, update
from sqlalchemy.exc import StatementError
from sqlalchemy.orm import Session

from messaging.errors import ConfigRejected
from messaging.sms.models import (
    SMS_PROVIDER_REGION,
    SMS_TEMPLATE_PROVIDER_BINDING,
    CountryRegion,
    SmsProviderRegion,
    SmsTemplateProviderBinding,
)
from messaging.sms.regions import Country, countries
from messaging.tenancy import use_multi_tenancy

#: Ways to save a route of a country.
WAYS: dict[str, Callable[[Session, str], Any]] = {
    "an object": lambda s, region: s.add(SmsProviderRegion(provider_config_id=1, region_code=region)),
    "a statement": lambda s, region: s.execute(
        insert(SmsProviderRegion).values(provider_config_id=1, region_code=region)
    ),
    "a list": lambda s, region: s.execute(
        insert(SmsProviderRegion), [{"provider_config_id": 1, "region_code": region}]
    ),
    "a table": lambda s, region: s.execute(
        insert(SMS_PROVIDER_REGION).values(provider_config_id=1, region_code=region)
    ),
    "mappings": lambda s, region: s.bulk_insert_mappings(
        SmsProviderRegion.__mapper__, [{"provider_config_id": 1, "region_code": region}]
    ),
    "objects": lambda s, region: s.bulk_save_objects([SmsProviderRegion(provider_config_id=1, region_code=region)]),
}


@pytest.fixture
def session(engine: Engine) -> Iterator[Session]:
    use_multi_tenancy(False)
    with Session(engine) as opened:
        yield opened


@pytest.mark.parametrize("save", WAYS.values(), ids=WAYS)
def test_a_route_is_stored_with_its_country_and_dial_code(session: Session, save: Callable[..., Any]) -> None:
    save(session, " cn ")  # R22
    session.commit()
    row = session.scalars(select(SmsProviderRegion)).one()
    assert (row.region_code, row.dial_code) == ("CN", "86")


@pytest.mark.parametrize("save", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("region", ["ZZ", "*", ""])
def test_a_route_to_no_country_is_refused_and_nothing_is_stored(
    session: Session, save: Callable[..., Any], region: str
) -> None:
    with pytest.raises((ConfigRejected, StatementError), match="region_code"), session.begin():  # R22
        save(session, region)
    assert session.scalar(select(func.count()).select_from(SMS_PROVIDER_REGION)) == 0


def test_a_refused_object_leaves_the_transaction_usable(session: Session) -> None:
    session.add(SmsProviderRegion(provider_config_id=1, region_code="DE"))
    session.flush()
    wrong = SmsProviderRegion(provider_config_id=1, region_code="ZZ")
    session.add(wrong)
    with pytest.raises(ConfigRejected, match="'ZZ'"):
        session.flush()
    session.expunge(wrong)
    session.commit()
    assert session.scalars(select(SmsProviderRegion.region_code)).all() == ["DE"]


def test_the_dial_code_is_never_the_callers(session: Session) -> None:
    row = SmsProviderRegion(provider_config_id=1, region_code="tw", dial_code="999")
    session.add(row)
    session.commit()
    assert (row.region_code, row.dial_code) == ("TW", "886")
    row.region_code, row.dial_code = " hk", "1"
    session.commit()
    assert (row.region_code, row.dial_code) == ("HK", "852")
    row.dial_code = "1"
    session.commit()
    assert row.dial_code == "852"
    for statement in (
        update(SmsProviderRegion).values(dial_code="1"),
        update(SmsProviderRegion).values(region_code="DE"),
        insert(SmsProviderRegion).values(provider_config_id=2, region_code="DE", dial_code="1"),
    ):
        with pytest.raises(ConfigRejected, match="dial_code"):
            session.execute(statement)
    session.execute(update(SmsProviderRegion).values(priority=1))


def test_a_territory_without_a_calling_code_has_an_empty_one(session: Session) -> None:
    row = SmsProviderRegion(provider_config_id=1, region_code="AQ")
    session.add(row)
    session.commit()
    assert row.dial_code == ""


def binding(region: str | None) -> SmsTemplateProviderBinding:
    return SmsTemplateProviderBinding(template_id=1, provider_config_id=1, region_code=region)


@pytest.mark.parametrize(("given", "stored"), [(" cn ", "CN"), ("  ", ""), (None, "")])
def test_a_bindings_country_may_be_blank(session: Session, given: str | None, stored: str) -> None:
    row = binding(given)
    session.add(row)
    session.commit()
    assert row.region_code == stored
    session.execute(update(SmsTemplateProviderBinding).values(region_code=" tw"))
    session.execute(update(SMS_TEMPLATE_PROVIDER_BINDING).values(region_code=" hk"))
    session.commit()
    assert row.region_code == "HK"


@pytest.mark.parametrize("region", ["ZZ", "*"])
def test_a_binding_to_no_country_is_refused(session: Session, region: str) -> None:  # R22
    session.add(binding(region))
    with pytest.raises(ConfigRejected, match="region_code"):
        session.flush()
    session.rollback()
    with pytest.raises(ConfigRejected, match="region_code"):
        session.execute(update(SmsTemplateProviderBinding).values(region_code=region))


def test_a_row_is_looked_for_by_any_region(session: Session) -> None:
    session.add(SmsProviderRegion(provider_config_id=1, region_code="DE"))
    session.flush()
    found = select(SmsProviderRegion).where(SmsProviderRegion.region_code.in_(["001", "DE"]))
    assert len(session.scalars(found).all()) == 1
    assert session.scalars(select(SmsProviderRegion).where(SmsProviderRegion.region_code == "001")).all() == []


def test_the_table_of_countries_holds_what_the_library_knows(session: Session) -> None:
    names = [column.name for column in CountryRegion.__table__.c]
    stored = session.execute(select(CountryRegion.__table__)).all()
    assert [Country(**dict(zip(names, row, strict=True))) for row in stored] == list(countries().values())
