"""What a seed may be: a YAML file of one row (`model`, `key` and the row's fields), and the models seeds may make.

Secrets stand in no file: a seed names the environment variable that has them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from sqlalchemy import Select, select

from messaging import strict_yaml
from messaging.errors import ConfigRejected, FileRejected
from messaging.folders import entries, read_text
from messaging.mail.models import MailSendServerConfig, MailTemplate
from messaging.mail.server_admin import new_server
from messaging.mail.server_checks import SECRET_FIELDS, ServerFields
from messaging.mail.template_checks import DEFAULTS, FIELDS, check_template
from messaging.quota import TenantMessageQuota
from messaging.settings import MAX_STORABLE_COUNT
from messaging.templates.finding import UNSTORABLE
from messaging.tenancy import SINGLE_TENANT_ID

#: A seed may hold a template's bodies.
MAX_SEED_BYTES = 2 * 1024 * 1024
MAX_KEY_CHARS = 100
#: How a seed names a secret: `{env: SMTP_PASSWORD}`.
ENVIRONMENT_KEY = "env"


@dataclass(frozen=True, slots=True)
class Seed:
    """A seed file that was read and checked; secrets are filled in."""

    file: str
    model: str
    key: str
    #: As the file has them, but for secrets.
    fields: dict[str, Any] = field(repr=False)

    def refused(self, field: str | None, reason: str) -> FileRejected:
        """The error that names this seed."""
        return FileRejected(self.file, reason, key=self.key, field=field)


@dataclass(frozen=True, slots=True)
class Model:
    """How rows of one table are made from seeds."""

    table: type[Any]
    fields: tuple[str, ...]
    secrets: frozenset[str]
    #: The row of these fields, not in a session yet. Raises ConfigRejected.
    new: Callable[[int, dict[str, Any]], Any]
    #: Of rows that agree in this field a tenant has one; None: any number.
    unique_field: str | None
    #: Finds a row that no second may stand beside; None: there may be any number.
    twins: Callable[[int, dict[str, Any]], Select[Any]] | None
    #: Whose rows they are: the tenant's, or the platform's about the tenant.
    is_platforms: bool = False


def read_seeds(folder: Path, environ: Mapping[str, str]) -> list[Seed]:
    """The seeds that the folder holds, checked, by file name. `environ` is where secrets are.

    Raises: FileRejected.
    """
    seeds: dict[tuple[str, str], Seed] = {}
    single: dict[tuple[str, Any], Seed] = {}
    for path in entries(folder):
        if path.suffix.lower() not in (".yaml", ".yml") or not path.is_file():
            if path.name.upper().startswith("README"):
                continue
            raise FileRejected(path.name, "is no seed; a seed is a file that ends in .yaml")
        seed = _read_seed(path, environ)
        twin = seeds.setdefault((seed.model, seed.key), seed)
        if twin is not seed:
            raise seed.refused("key", f"key is {seed.key!r}, as in {twin.file}")
        _check_single(seed, single)
    return list(seeds.values())


def _check_single(seed: Seed, single: dict[tuple[str, Any], Seed]) -> None:
    """Refuse a second seed of what a tenant has one of; `single` are those so far."""
    name = MODELS[seed.model].unique_field
    if name is None:
        return
    value = seed.model if name == "model" else seed.fields[name]
    twin = single.setdefault((seed.model, value), seed)
    if twin is not seed:
        raise seed.refused(name, f"{name} is {value!r}, as in {twin.file}, and a tenant has one of them")


def _read_seed(path: Path, environ: Mapping[str, str]) -> Seed:
    shown = path.name
    try:
        given = strict_yaml.load(read_text(path, shown, max_bytes=MAX_SEED_BYTES))
    except strict_yaml.YamlRefused as exc:
        raise FileRejected(shown, str(exc)) from exc
    name, key = given.pop("model", None), given.pop("key", None)
    if not isinstance(key, str) or not key.strip() or len(key) > MAX_KEY_CHARS or UNSTORABLE.search(key):
        raise FileRejected(shown, f"key is {key!r}: it is text of 1 to {MAX_KEY_CHARS} characters", field="key")
    if not isinstance(name, str) or name not in MODELS:
        raise FileRejected(shown, f"model is {name!r}: it is none of {', '.join(MODELS)}", key=key, field="model")
    model = MODELS[name]
    seed = Seed(shown, name, key, given)
    for unknown in given.keys() - set(model.fields):
        fields = ", ".join(model.fields)
        raise seed.refused(unknown, f"{name} has no field {unknown!r} for seeds; it has {fields}")
    for secret in model.secrets & given.keys():
        given[secret] = _secret(seed, secret, environ)
    try:
        model.new(SINGLE_TENANT_ID, given)
    except ConfigRejected as exc:
        raise seed.refused(exc.field, str(exc)) from exc
    return seed


def _secret(seed: Seed, name: str, environ: Mapping[str, str]) -> str | None:
    """The secret that a seed names; a value in the file itself is refused and not repeated."""
    value = seed.fields[name]
    if value is None:
        return None
    if not isinstance(value, dict) or list(value) != [ENVIRONMENT_KEY] or not isinstance(value[ENVIRONMENT_KEY], str):
        raise seed.refused(name, f"{name} is a secret and stands in no file; write {{{ENVIRONMENT_KEY}: VARIABLE}}")
    secret = environ.get(value[ENVIRONMENT_KEY])
    if not secret:
        raise seed.refused(name, f"{name}: the environment variable {value[ENVIRONMENT_KEY]!r} is not set")
    return secret


def _new_template(_tenant_id: int, fields: dict[str, Any]) -> MailTemplate:
    whole = dict.fromkeys(FIELDS) | DEFAULTS | fields
    check_template(whole)
    return MailTemplate(**whole)


def _new_server(_tenant_id: int, fields: dict[str, Any]) -> MailSendServerConfig:
    return new_server(**cast("ServerFields", fields))


def _new_quota(tenant_id: int, fields: dict[str, Any]) -> TenantMessageQuota:
    for name, value in fields.items():
        if value is not None and not (type(value) is int and 0 <= value <= MAX_STORABLE_COUNT):
            raise ConfigRejected(name, value, f"allowed: 0 to {MAX_STORABLE_COUNT}, or null for the default")
    return TenantMessageQuota(tenant_id=tenant_id, **fields)


#: Fields of a template that hold ids of one database.
_IDS = ("preferred_server_config_id", "attachments")

MODELS = {
    MailTemplate.__tablename__: Model(
        MailTemplate,
        tuple(name for name in FIELDS if name not in _IDS),
        frozenset(),
        _new_template,
        "code",
        lambda _tenant_id, fields: select(MailTemplate.id).where(MailTemplate.code == fields["code"]),
    ),
    MailSendServerConfig.__tablename__: Model(
        MailSendServerConfig, tuple(ServerFields.__annotations__), SECRET_FIELDS, _new_server, None, None
    ),
    TenantMessageQuota.__tablename__: Model(
        TenantMessageQuota,
        ("mail_monthly_limit", "sms_monthly_limit"),
        frozenset(),
        _new_quota,
        "model",
        lambda tenant_id, _fields: select(TenantMessageQuota.id).where(TenantMessageQuota.tenant_id == tenant_id),
        is_platforms=True,
    ),
}
