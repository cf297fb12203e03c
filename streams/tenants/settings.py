"""Read a tenant's settings."""

from dataclasses import dataclass
from typing import Final

from schemas.ids import TenantId
from schemas.problems import NotFound
from schemas.tenant_settings import TenantSettings
from streams.ports.records import RecordKind, Records

SETTINGS: Final = "tenant"
"""The id of a tenant's one record of settings."""


async def read_settings(records: Records, tenant_id: TenantId) -> TenantSettings:
    """Return the settings, with defaults for what was never set."""
    return (await load_settings(records, tenant_id)).settings


@dataclass(frozen=True, slots=True)
class VersionedSettings:
    """The settings and the version of their record."""

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
