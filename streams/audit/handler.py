"""Seal audit rows into their tenant's chain, and verify chains."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Final

from schemas.audit import AuditEvent, AuditFilter, ChainLink, SealAudit
from schemas.base import Frozen
from schemas.checkpoints import ChainHead
from schemas.ids import AuditEventId, TenantId
from streams.audit.rules import CHAIN, ChainFault, chain_key, check, classify, link
from streams.ports.audit import AuditLog, ChainKeys, SealedRow
from streams.ports.errors import Damaged
from streams.ports.records import Position

BATCH: Final = 200
"""Rows sealed, or read, at a time."""

LOOKED_AT: Final = 2_000
"""Rows behind a bad one that are searched to say what is wrong with it; that it is wrong needs none."""


class SealChain:
    """Seal unsealed rows; run twice or concurrently, every row is still sealed once and in order."""

    def __init__(self, audit_log: AuditLog) -> None:
        self._log = audit_log

    async def __call__(self, command: SealAudit) -> None:
        """Seal every unsealed row of the tenant, whichever rows the command names.

        Raises:
            Damaged: The chain's head was tampered with; nothing more is sealed onto it.
            KeyUnavailable: This process is a sender of webhooks, which has no key of the chains.
        """
        tenant_id = command.tenant_id
        while True:
            head = await self._log.head(tenant_id)  # before the rows: a concurrent writer moves it on
            key = chain_key((await self._log.keys()).newest, tenant_id)  # after it: never older than the head
            waiting = await self._log.unsealed(tenant_id, BATCH)
            sealed = await self._log.seal(tenant_id, _links(head, waiting, key))
            if sealed and len(waiting) < BATCH:
                return


def _links(
    head: ChainLink | None, rows: Sequence[AuditEvent], key: bytes
) -> list[tuple[AuditEventId, ChainLink]]:
    links = []
    for row in rows:
        head = link(head, row, key)
        links.append((row.event_id, head))
    return links


class ChainReport(Frozen):
    """The result of verifying a tenant's chain; `fault` is None when it is intact."""

    tenant_id: TenantId
    rows: int
    """Rows found good before the walk ended."""
    waiting: int = 0
    """Rows that are not sealed yet, which is nothing bad."""
    fault: ChainFault | None = None
    position: int | None = None
    """The first bad place in the chain; None for a row outside it."""
    event_id: AuditEventId | None = None
    """The first bad row, unless it is gone."""
    head: ChainHead | None = None
    """The last valid link; stored elsewhere, it proves later that nothing up to it was removed."""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return self.fault is None


Expected = Mapping[int, Collection[str]]
"""The hashes a chain must have, by position."""


async def verify_chain(
    audit_log: AuditLog, tenant_id: TenantId, expected: Expected | None = None
) -> ChainReport:
    """Verify the whole chain, then find rows outside it; safe while rows are written and sealed.

    Links may be under any version of the key, but never under an older one than the link before.

    That everything, the head included, was set back to an earlier state cannot be noticed from within:
    `expected` are the hashes from checkpoints or from heads stored elsewhere.
    """
    walk = _Walk(audit_log, tenant_id, await audit_log.keys(), expected or {})
    return await walk.find_broken_link() or walk.find_cut_end() or await walk.find_stray_row()


class _Walk:
    """One walk along a chain; it remembers how far the chain is good."""

    def __init__(self, audit_log: AuditLog, tenant_id: TenantId, keys: ChainKeys, expected: Expected) -> None:
        self._log = audit_log
        self._tenant_id = tenant_id
        self._keys = _of_tenant(keys, tenant_id)
        """Those that the next link may be under, oldest first."""
        self._versions = len(self._keys)
        self._expected = expected
        self._agreed = 0
        """The last position at which the chain had an expected hash."""
        self._replaced = False
        self._last: ChainLink | None = None
        self._met: set[AuditEventId] = set()

    async def find_broken_link(self) -> ChainReport | None:
        """Verify up to the head, which is read after the rows so that it is never behind valid ones."""
        promised = 0
        while True:
            bad = await self._go_on()
            if self._replaced:
                return self._report(ChainFault.REPLACED, self._agreed + 1)
            if bad is not None:
                return await self._explain(bad)
            if _position(self._last) < promised:
                return self._report(ChainFault.REMOVED, _position(self._last) + 1)
            try:
                head = await self._log.head(self._tenant_id)
            except Damaged:
                return self._report(ChainFault.HEAD)
            if _position(head) <= _position(self._last):
                return None if head == self._last else self._report(ChainFault.HEAD)
            promised = _position(head)

    def find_cut_end(self) -> ChainReport | None:
        """Compare the end of the chain with the expected hashes behind it."""
        last = _position(self._last)
        if max(self._expected, default=0) <= last:
            return None
        return self._report(ChainFault.CUT, last + 1)

    async def find_stray_row(self) -> ChainReport:
        """Look for rows that are neither sealed nor waiting; the report of a good chain if there are none.

        A store may show a row a moment before it shows that it waits, so only who strays twice is a stray.
        """
        self._met.clear()
        report = await self._look_for_strays()
        return await self._look_for_strays() if report.fault is ChainFault.FOREIGN else report

    async def _look_for_strays(self) -> ChainReport:
        try:
            loose = [row.event_id async for row in self._all_rows() if CHAIN not in row.context]
            waiting = {row.event_id for row in await self._log.unsealed(self._tenant_id, len(loose))}
        except Damaged:
            return self._report(ChainFault.FOREIGN)
        broken = await self.find_broken_link()  # meets what was sealed meanwhile
        if broken is not None:
            return broken
        strays = [event_id for event_id in loose if event_id not in waiting | self._met]
        if strays:
            return self._report(ChainFault.FOREIGN, event_id=strays[-1])
        return self._report(waiting=len(waiting - self._met))

    async def _go_on(self) -> SealedRow | None:
        """Check the rows behind the last good one; return the first bad row."""
        while rows := await self._log.walk(self._tenant_id, _position(self._last), BATCH):
            for row in rows:
                if row.event is None or not await self._joins(row):
                    return row
                self._last = row.link
                self._met.add(row.event.event_id)
                if not self._agrees(row.link):
                    return row
        return None

    async def _joins(self, row: SealedRow) -> bool:
        """Return whether the row is the next one under a version its place allows, and remember which."""
        joined = self._versions_of(row)
        if joined is None:  # the root key was rotated since the walk began, or the row is bad
            every = _of_tenant(await self._log.keys(), self._tenant_id)
            self._keys, self._versions = self._keys + every[self._versions :], len(every)
            joined = self._versions_of(row)
        self._keys = joined or self._keys
        return joined is not None

    def _versions_of(self, row: SealedRow) -> list[bytes] | None:
        """Return the version of the row's link and the later ones; None: it is under none of them."""
        under = (n for n, key in enumerate(self._keys) if check(self._last, row, key) is None)
        first = next(under, None)
        return None if first is None else self._keys[first:]

    def _agrees(self, link_: ChainLink) -> bool:
        """Return whether the link has every hash expected at its place, and remember it."""
        expected = self._expected.get(link_.position)
        if expected is None:
            return True
        self._replaced = any(one != link_.hash for one in expected)
        self._agreed = self._agreed if self._replaced else link_.position
        return not self._replaced

    async def _all_rows(self) -> AsyncIterator[AuditEvent]:
        before: Position | None = None
        while rows := await self._log.page(self._tenant_id, AuditFilter(), limit=BATCH, before=before):
            for row in rows:
                yield row
            before = Position(rows[-1].created_at, rows[-1].event_id)

    async def _explain(self, bad: SealedRow) -> ChainReport:
        behind = await self._log.walk(self._tenant_id, bad.link.position, LOOKED_AT)
        fault = classify(self._last, bad, behind, await self._head_or_none(), self._keys)
        gone = bad.event is None or fault is ChainFault.REMOVED
        event_id = None if gone or bad.event is None else bad.event.event_id
        return self._report(fault, _position(self._last) + 1, event_id)

    async def _head_or_none(self) -> ChainLink | None:
        try:
            return await self._log.head(self._tenant_id)
        except Damaged:
            return None

    def _report(
        self,
        fault: ChainFault | None = None,
        position: int | None = None,
        event_id: AuditEventId | None = None,
        waiting: int = 0,
    ) -> ChainReport:
        last = self._last
        return ChainReport(
            tenant_id=self._tenant_id,
            rows=_position(last),
            waiting=waiting,
            fault=fault,
            position=position,
            event_id=event_id,
            head=None
            if last is None
            else ChainHead(tenant_id=self._tenant_id, position=last.position, hash=last.hash),
        )


def _of_tenant(keys: ChainKeys, tenant_id: TenantId) -> list[bytes]:
    return [chain_key(key, tenant_id) for key in (*keys.versions[:-1], keys.newest)]


def _position(link_or_none: ChainLink | None) -> int:
    return 0 if link_or_none is None else link_or_none.position
