"""A tenant's settings as they stand."""

from dataclasses import dataclass
from typing import Final

from schemas.ids import TenantId
from schemas.problems import NotFound
from schemas.tenant_settings import TenantSettings
from streams.ports.records import RecordKind, Records

SETTINGS: Final = "tenant"
"""The id of a tenant's one record of settings."""


async def read_settings(records: Records, tenant_id: TenantId) -> TenantSettings:
    """Return the settings; what was never set has its default."""
    return (await load_settings(records, tenant_id)).settings


@dataclass(frozen=True, slots=True)
class VersionedSettings:
    """The settings as read, with the version a change of them must follow."""

    settings: TenantSettings
    version: int
    """0: nothing was ever set."""


async def load_settings(records: Records, tenant_id: TenantId) -> VersionedSettings:
    """Return the settings and their version."""
    try:
        record = await records.get(tenant_id, RecordKind.SETTINGS, SETTINGS)
    except NotFound:
        return VersionedSettings(TenantSettings(), 0)
    return VersionedSettings(TenantSettings.from_bytes(record.body), record.version)
