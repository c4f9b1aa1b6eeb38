"""SMS providers: kept by operators, checked, tried."""

from typing import Unpack

from sqlalchemy.orm import Session

from messaging.api.calls import in_session, note_trial
from messaging.api.process import environment
from messaging.config_lists import Lines, ListFields
from messaging.sms import connectivity, provider_admin
from messaging.sms.connectivity import ProviderTest
from messaging.sms.models import SMS_PROVIDER_CONFIG
from messaging.sms.provider_admin import ProviderCheck, ProviderLine
from messaging.sms.provider_checks import ProviderFields


def add_sms_provider(*, session: Session | None = None, **fields: Unpack[ProviderFields]) -> int:
    """Add an SMS provider of this tenant; answers its id. See `messaging.sms.provider_admin` for what follows.

    Raises:
        ConfigRejected: A field cannot be saved, or its adapter could not send with it. Nothing was written.
    """
    environment()
    with in_session(session) as s:
        return provider_admin.add_provider(s, **fields)


def change_sms_provider(config_id: int, *, session: Session | None = None, **fields: Unpack[ProviderFields]) -> None:
    """Change fields of an SMS provider; the next attempt of each record that uses it goes by them within a second.

    Raises:
        ConfigRejected: As `add_sms_provider`; nothing was changed.
        RecordNotFound: No such provider in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    environment()
    with in_session(session) as s:
        provider_admin.change_provider(s, config_id, **fields)


def copy_sms_provider(config_id: int, *, session: Session | None = None, **fields: Unpack[ProviderFields]) -> int:
    """Add an SMS provider like another one of this tenant, but for the fields given; answers its id.

    Keys, secrets, `ext_config`, routes and bindings are not copied; unless it is said otherwise the copy is disabled
    and no default.

    Raises:
        ConfigRejected: A field cannot be saved, or its adapter needs what is not copied. Nothing was written.
        RecordNotFound: No such provider in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    environment()
    with in_session(session) as s:
        return provider_admin.copy_provider(s, config_id, **fields)


def delete_sms_provider(config_id: int, *, session: Session | None = None) -> None:
    """Delete an SMS provider with its routes; what still has to go out by it fails.

    See `messaging.sms.provider_admin.delete_provider`.

    Raises:
        RecordNotFound: No such provider in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    environment()
    with in_session(session) as s:
        provider_admin.delete_provider(s, config_id)


def list_sms_providers(*, session: Session | None = None, **asked: Unpack[ListFields]) -> Lines[ProviderLine]:
    """This tenant's SMS providers, lowest priority first, without secrets.

    Raises: ValueError, TypeError, naming what was asked and what is allowed.
    """
    base_url = environment().settings.public_base_url
    with in_session(session) as s:
        return provider_admin.list_providers(s, public_base_url=base_url, **asked)


def get_sms_provider(config_id: int, *, session: Session | None = None) -> ProviderLine:
    """One SMS provider of this tenant, disabled or not, without secrets. Raises: RecordNotFound."""
    base_url = environment().settings.public_base_url
    with in_session(session) as s:
        return provider_admin.get_provider(s, config_id, public_base_url=base_url)


def set_sms_provider_active(config_id: int, is_active: bool, *, session: Session | None = None) -> None:
    """Disable an SMS provider or enable it again; what was prepared with it goes out in any case.

    Raises:
        RecordNotFound: No such provider in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    environment()
    with in_session(session) as s:
        provider_admin.set_provider_active(s, config_id, is_active)


def check_sms_provider(config_id: int) -> ProviderCheck:
    """Whether an SMS provider of this tenant, disabled or not, has all that its adapter needs. Calls nobody.

    Raises:
        RecordNotFound: No such provider in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    return provider_admin.check_provider(environment().engine, config_id)


def try_sms_provider(config_id: int) -> ProviderTest:
    """Check an SMS provider of this tenant, disabled or not, and read something of its account; sends nothing.

    Takes up to 15 seconds.

    Raises:
        RecordNotFound: No such provider in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    shared = environment()
    found = connectivity.try_provider(shared.engine, shared.settings, config_id)
    note_trial(SMS_PROVIDER_CONFIG, config_id, success=found.success, error=found.error_message)
    return found
