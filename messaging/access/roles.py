"""Roles, and what each may do. Source: `operate.md` section 9."""

from enum import StrEnum


class Permission(StrEnum):
    """What a request needs."""

    #: Hand in messages, call them off, see templates and senders.
    SEND = "SEND"
    #: Read what a tenant administrator reads.
    READ = "READ"
    #: Retry, cancel, mark, lift.
    OPERATE = "OPERATE"
    #: Change configuration, tokens and operators of the tenant.
    ADMINISTER = "ADMINISTER"
    #: What belongs to the platform: dead letters, quotas, other tenants' usage.
    PLATFORM = "PLATFORM"


class Role(StrEnum):
    """What an operator or a token is."""

    #: Hands in messages and nothing else: a service.
    SENDER = "SENDER"
    #: Reads.
    VIEWER = "VIEWER"
    #: Reads, sends and mends.
    OPERATOR = "OPERATOR"
    #: All of one tenant.
    TENANT_ADMIN = "TENANT_ADMIN"
    #: All of the platform's tier, and what is shared by all tenants.
    PLATFORM = "PLATFORM"


_OPERATOR = frozenset({Permission.SEND, Permission.READ, Permission.OPERATE})

PERMISSIONS: dict[Role, frozenset[Permission]] = {
    Role.SENDER: frozenset({Permission.SEND}),
    Role.VIEWER: frozenset({Permission.READ}),
    Role.OPERATOR: _OPERATOR,
    Role.TENANT_ADMIN: _OPERATOR | {Permission.ADMINISTER},
    Role.PLATFORM: _OPERATOR | {Permission.ADMINISTER, Permission.PLATFORM},
}
