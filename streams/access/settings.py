"""A tenant's settings as they stand."""

from typing import Final

from schemas.ids import TenantId
from schemas.problems import NotFound
from schemas.tenant_settings import TenantSettings
from streams.ports import RecordKind, Records

SETTINGS: Final = "tenant"
"""The id of a tenant's one record of settings."""


async def read_settings(records: Records, tenant_id: TenantId) -> TenantSettings:
    """Return the settings; what was never set has its default."""
    try:
        record = await records.get(tenant_id, RecordKind.SETTINGS, SETTINGS)
    except NotFound:
        return TenantSettings()
    return TenantSettings.from_bytes(record.body)
