"""What only one provider knows of an account (`ext_config`): kept with every value encrypted that may be a secret.

The values of `PUBLIC_KEYS` are stored as they are; every other one, an adapter of an application's own included, as
`{"encrypted": ciphertext}` under its key: which keys are set can be listed, what they hold is for who sends. A callback
address is none of the public ones, as it may hold a password.
"""

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Dialect
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeDecorator

from messaging.db.encryption import decrypt, encrypt

#: Regions and an application's number: in each request, and no secret of anybody.
PUBLIC_KEYS = frozenset({"region", "regionId", "sdkAppId"})

_SEALED = "encrypted"


def is_sealed(value: Any) -> bool:
    """Whether a stored value is a ciphertext."""
    return isinstance(value, Mapping) and list(value) == [_SEALED] and isinstance(value[_SEALED], str)


def seal(config: Any) -> Any:
    """The object as it is stored; what is sealed already stays, and what is no object is none of ours."""
    if not isinstance(config, Mapping):
        return config
    return {
        key: value
        if key in PUBLIC_KEYS or value is None or is_sealed(value)
        else {_SEALED: encrypt(json.dumps(value, ensure_ascii=False))}
        for key, value in config.items()
    }


def unseal(config: Any) -> Any:
    """The object as an adapter reads it.

    Raises: CredentialUnreadable.
    """
    if not isinstance(config, Mapping):
        return config
    return {key: json.loads(decrypt(value[_SEALED])) if is_sealed(value) else value for key, value in config.items()}


class ExtConfig(TypeDecorator[dict[str, Any]]):
    """A JSON object that is sealed when it is written, whoever writes it; it is read as it is stored."""

    impl = JSONB(none_as_null=True)
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return seal(value)
