"""Mail templates as files, a folder each (`messaging.templates.folders`):

    order-confirmed/template.yaml   code, name, subject and switches
    order-confirmed/body.html       the sources of the bodies, as they are stored; a missing file is null
    order-confirmed/body.txt

The ids in `preferred_server_config_id` and `attachments` are those of one database.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy.orm import Session

from messaging.mail.models import MailTemplate
from messaging.mail.template_checks import DEFAULTS, FIELDS, MAX_SOURCE_CHARS, check_template, file_references
from messaging.mail.template_references import unknown_references
from messaging.templates.folders import Kind, TemplateFolder


def _short_references(value: Any) -> list[dict[str, Any]] | None:
    """The same as a file has them: the keys that are given."""
    return [{k: v for k, v in item.items() if v is not None} for item in value] if value else value


def _check_references(session: Session, templates: Sequence[TemplateFolder]) -> None:
    """Refuse ids of servers and files that this tenant does not have."""
    for index, field, reason in unknown_references(session, [template.fields for template in templates]):
        raise templates[index].refused(field, f"{field}: {reason}")


MAIL_TEMPLATES = Kind(
    what="mail template",
    model=MailTemplate,
    fields=FIELDS,
    source_files={"body_html": "body.html", "body_text": "body.txt"},
    # UTF-8 takes up to four for a character.
    max_source_bytes=4 * MAX_SOURCE_CHARS,
    defaults=DEFAULTS,
    check=check_template,
    check_references=_check_references,
    stored_as={"attachments": file_references},
    shown_as={"attachments": _short_references},
)
