"""Which template an author means: by its id, or by its code in the caller's own tier."""

import re
from typing import TypeVar

from sqlalchemy import select
from sqlalchemy.orm import Session

from messaging import tenancy
from messaging.db.active import with_disabled
from messaging.errors import MessageRejected, RecordNotFound
from messaging.templates.models import TemplateColumns

MAX_ID = 2**63 - 1
#: What PostgreSQL or UTF-8 cannot hold, so that no row has it.
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")

TemplateT = TypeVar("TemplateT", bound=TemplateColumns)


def get_template(
    session: Session, model: type[TemplateT], what: str, template_id: int | None = None, code: str | None = None
) -> TemplateT:
    """The template with this id, which wins, or with this code; active or not. `what` is its kind's name in errors.

    Raises:
        MessageRejected: Neither is given, or not as an id and a code are; or by code with no tenant to look in.
        RecordNotFound: The tenant has no such template.
    """
    if template_id is not None:
        if type(template_id) is not int or not 1 <= template_id <= MAX_ID:
            raise MessageRejected(what, "id", template_id, "is not an id")
        condition, named = model.id == template_id, str(template_id)
    elif isinstance(code, str) and code.strip() and not UNSTORABLE.search(code):
        if tenancy.is_multi_tenancy() and tenancy.current().cross_tenant:
            raise MessageRejected(what, "code", code, "names one template in each tenant; say which tenant")
        condition, named = model.code == code, repr(code)
    else:
        raise MessageRejected(what, "code", code, "is missing, and so is id")
    found = session.scalars(with_disabled(select(model).where(condition))).one_or_none()
    if found is None:
        raise RecordNotFound(f"no {what} {named}")
    return found
