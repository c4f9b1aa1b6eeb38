"""What a seed is: a YAML file of one row, with `model`, `key` and the row's fields (`messaging.seed_models`).

Secrets stand in no file: a seed names the environment variable that has them. Nor do ids: another row is named by the
key of its seed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from messaging import strict_yaml
from messaging.errors import ConfigRejected, FileRejected
from messaging.folders import entries, read_text
from messaging.seed_models import EXT_CONFIG, MODELS
from messaging.sms.ext_config import PUBLIC_KEYS
from messaging.templates.finding import UNSTORABLE
from messaging.tenancy import SINGLE_TENANT_ID

#: A seed may hold a template's bodies.
MAX_SEED_BYTES = 2 * 1024 * 1024
MAX_KEY_CHARS = 100
#: How a seed names a secret: `{env: SMTP_PASSWORD}`.
ENVIRONMENT_KEY = "env"
#: How a seed names a row: by a key of the same tenant's seeds, or of the platform's.
SEED_KEY = "seed"
PLATFORM_KEY = "platform"


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
    if isinstance(given.get(EXT_CONFIG), dict):
        given[EXT_CONFIG] = _ext_config(seed, given[EXT_CONFIG], environ)
    for reference in model.references:
        _check_reference(seed, reference)
    try:
        model.new(SINGLE_TENANT_ID, given | dict.fromkeys(model.references, 1))
    except ConfigRejected as exc:
        raise seed.refused(exc.field, str(exc)) from exc
    return seed


def _check_reference(seed: Seed, name: str) -> None:
    """Refuse what names no row by its seed."""
    value, (table, may_be_platforms) = seed.fields.get(name), MODELS[seed.model].references[name]
    allowed = [SEED_KEY, PLATFORM_KEY] if may_be_platforms else [SEED_KEY]
    pairs = list(value.items()) if isinstance(value, dict) else []
    if len(pairs) != 1 or pairs[0][0] not in allowed or not isinstance(pairs[0][1], str):
        forms = " or ".join(f"{{{form}: KEY}}" for form in allowed)
        raise seed.refused(name, f"{name} is {value!r}: write {forms}, with the key of a seed of {table}")


def _ext_config(seed: Seed, given: dict[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """With the secrets that it names; what is stored encrypted stands in no file."""
    return {
        key: value if key in PUBLIC_KEYS else _secret_value(seed, f"{EXT_CONFIG}.{key}", value, environ)
        for key, value in given.items()
    }


def _secret(seed: Seed, name: str, environ: Mapping[str, str]) -> str | None:
    """The secret that a field names; None where it has none."""
    value = seed.fields[name]
    return None if value is None else _secret_value(seed, name, value, environ)


def _secret_value(seed: Seed, name: str, value: Any, environ: Mapping[str, str]) -> str:
    """The secret that a seed names; a value in the file itself is refused and not repeated."""
    if not isinstance(value, dict) or list(value) != [ENVIRONMENT_KEY] or not isinstance(value[ENVIRONMENT_KEY], str):
        raise seed.refused(name, f"{name} is a secret and stands in no file; write {{{ENVIRONMENT_KEY}: VARIABLE}}")
    secret = environ.get(value[ENVIRONMENT_KEY])
    if not secret:
        raise seed.refused(name, f"{name}: the environment variable {value[ENVIRONMENT_KEY]!r} is not set")
    return secret
