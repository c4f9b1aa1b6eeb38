"""What a mail template names by id: a mail server, and stored files. Both must be of the template's tenant."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from messaging.db.active import with_disabled
from messaging.files import StoredFile
from messaging.mail.models import MailSendServerConfig


def unknown_references(session: Session, templates: Collection[Mapping[str, Any]]) -> Iterator[tuple[int, str, str]]:
    """The ids that the tenant does not have, of the fields of some templates; asks twice however many there are.

    Each as the template's index, the field, and what is wrong with it.
    """
    servers = {fields.get("preferred_server_config_id") for fields in templates} - {None}
    files = {item["file_id"] for fields in templates for item in fields.get("attachments") or ()}
    known_servers = _known(session, MailSendServerConfig, servers)
    known_files = _known(session, StoredFile, files)
    for index, fields in enumerate(templates):
        server = fields.get("preferred_server_config_id")
        if server is not None and server not in known_servers:
            yield index, "preferred_server_config_id", f"is {server}: the tenant has no such server"
        for item in fields.get("attachments") or ():
            if item["file_id"] not in known_files:
                yield index, "attachments", f"file_id is {item['file_id']}: the tenant has no such file"


def _known(session: Session, kind: type[Any], ids: Collection[Any]) -> set[int]:
    return set(session.scalars(with_disabled(select(kind.id).where(kind.id.in_(ids))))) if ids else set()
