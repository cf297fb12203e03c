"""The port of the audit log.

Every method takes the tenant first, and another tenant's thing is `NotFound`. Each may raise
`StoreUnavailable`; then the outcome is unknown, and calling again is safe.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from schemas.audit import AuditEvent, AuditFilter, ChainLink
from schemas.checkpoints import ChainHead
from schemas.ids import AuditEventId, TenantId
from streams.ports.errors import KeyUnavailable
from streams.ports.records import Position


@dataclass(frozen=True, slots=True)
class ChainKey:
    """A version of the key of the audit chains."""

    version: str
    """Id of the root key that derives it; empty for the first one of a store that did not record it."""
    secret: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ChainKeys:
    """Every version of the key of the audit chains, oldest first."""

    versions: tuple[ChainKey, ...]

    @property
    def newest(self) -> ChainKey:
        """Return the version under which rows are sealed from now on.

        Raises:
            KeyUnavailable: This process was given none.
        """
        if not self.versions:
            raise KeyUnavailable("this process holds no key for the audit log's chains")
        return self.versions[-1]

    def named(self, version: str) -> ChainKey | None:
        """Return the version of that name; what was sealed before there were versions has none: the first.

        Raises:
            KeyUnavailable: This process was given none.
        """
        found = {key.version: key for key in (*self.versions, self.newest)}
        return found.get(version) if version else self.versions[0]


@dataclass(frozen=True, slots=True)
class SealedRow:
    """A link of the chain with the row it seals."""

    event: AuditEvent | None
    """None: the row is missing or cannot be parsed."""
    link: ChainLink


class AuditLog(Protocol):
    """Read and seal audit rows, which `Journal.commit` adds; sealing links them to the tenant's chain."""

    async def page(
        self, tenant_id: TenantId, chosen: AuditFilter, *, limit: int, before: Position | None = None
    ) -> Sequence[AuditEvent]:
        """Return matching rows, newest first; a sealed row carries its link in `context["chain"]`.

        Raises:
            Damaged: A row was altered so far that it cannot be read.
        """
        ...

    async def unsealed_tenants(self) -> Sequence[TenantId]:
        """Return the tenants that have rows outside their chain."""
        ...

    async def unsealed(self, tenant_id: TenantId, limit: int) -> Sequence[AuditEvent]:
        """Return rows outside the chain in the order they were committed.

        Raises:
            Damaged: A row was altered so far that it cannot be read.
        """
        ...

    async def keys(self) -> ChainKeys:
        """Return the versions of the chains' key; read after the head, the newest is that of links behind it.

        Raises:
            StoreUnavailable: The root key was rotated, and this process was not given the new one.
        """
        ...

    async def head(self, tenant_id: TenantId) -> ChainLink | None:
        """Return the last link of the chain, None before the first.

        Raises:
            Damaged: The head is not one that `seal` wrote.
        """
        ...

    async def heads(self) -> Sequence[ChainHead]:
        """Return the last link of every chain; a chain whose head `seal` did not write is left out."""
        ...

    async def seal(self, tenant_id: TenantId, rows: Sequence[tuple[AuditEventId, ChainLink]]) -> bool:
        """Append links in order; return False, writing nothing, when the head is not the one they follow.

        Raises:
            Damaged: The head is not one that `seal` wrote, or a row is unknown or already in the chain.
        """
        ...

    async def walk(self, tenant_id: TenantId, after: int, limit: int) -> Sequence[SealedRow]:
        """Return sealed rows in chain order, from the position after `after`."""
        ...
