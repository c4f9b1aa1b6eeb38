"""Mail templates as files, a folder each (`messaging.templates.folders`):

    order-confirmed/template.yaml   code, name, subject and switches
    order-confirmed/body.html       the sources of the bodies, as they are stored; a missing file is null
    order-confirmed/body.txt

The ids in `preferred_server_config_id` and `attachments` are those of one database.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from messaging.db.active import with_disabled
from messaging.files import StoredFile
from messaging.mail.models import MailSendServerConfig, MailTemplate
from messaging.mail.template_checks import DEFAULTS, FIELDS, FILE_KEYS, MAX_SOURCE_CHARS, check_template
from messaging.templates.folders import Kind, TemplateFolder


def file_references(value: Any) -> list[dict[str, Any]] | None:
    """The attachments of a template as they are stored: every key of every file."""
    return [{key: item.get(key) for key in FILE_KEYS} for item in value] if value else None


def _short_references(value: Any) -> list[dict[str, Any]] | None:
    """The same as a file has them: the keys that are given."""
    return [{k: v for k, v in item.items() if v is not None} for item in value] if value else value


def _check_references(session: Session, templates: Sequence[TemplateFolder]) -> None:
    """Refuse ids of servers and files that this tenant does not have."""
    servers = {t.fields["preferred_server_config_id"] for t in templates} - {None}
    files = {item["file_id"] for t in templates for item in t.fields["attachments"] or ()}
    known = with_disabled(select(MailSendServerConfig.id).where(MailSendServerConfig.id.in_(servers)))
    known_servers = set(session.scalars(known)) if servers else set()
    known_files = set(session.scalars(select(StoredFile.id).where(StoredFile.id.in_(files)))) if files else set()
    for template in templates:
        server = template.fields["preferred_server_config_id"]
        if server is not None and server not in known_servers:
            raise template.refused(
                "preferred_server_config_id", f"preferred_server_config_id is {server}: the tenant has no such server"
            )
        for item in template.fields["attachments"] or ():
            if item["file_id"] not in known_files:
                raise template.refused(
                    "attachments", f"attachments: file_id is {item['file_id']}: the tenant has no such file"
                )


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
