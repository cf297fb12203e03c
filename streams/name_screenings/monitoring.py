"""Compare monitored names with lists that changed: a sweep that asks for it, and the use case (G118)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

import structlog

from schemas.base import to_milliseconds
from schemas.ids import TenantId
from schemas.name_screenings import RescreenNames, ScreeningParts, StoredNameScreening
from schemas.problems import NotFound, StoreUnavailable
from schemas.screenings import ErrorCause
from schemas.topics import Topic
from streams.aggregate import retry_conflicts
from streams.audit.commit import Commit
from streams.name_screenings.found_matches import audit_rows, events, open_case
from streams.name_screenings.records import by_mode_and_subject, case_record, monitored, parts_label
from streams.name_screenings.screening import new_matches, screen_all
from streams.ports.errors import Erased
from streams.ports.records import Change, Record, RecordKind, Records
from streams.ports.screening import Screening, Suppressions
from streams.ports.stores import Stores
from streams.privacy.sealing import seal, unseal
from streams.runtime.outbox_relay import beside
from streams.runtime.producer import Outgoing
from streams.runtime.record_removal import pages, tenant_ids
from streams.tenants.handler import TENANTS_INDEX

EVERY_S: Final = 30.0
PAGE: Final = 100
MOST: Final = 2_000
"""Commands of one round; the next asks for the others."""

log = structlog.get_logger(__name__)

ListVersions = Callable[[TenantId, bool], Awaitable[Mapping[str, str]]]
"""Return the versions of the lists that a tenant's screenings of a mode use unasked."""


@dataclass(frozen=True, slots=True)
class Rescreen:
    """Compares the names of a monitored screening again; each match is reported once."""

    stores: Stores
    screening: Screening
    suppressions: Suppressions
    commit: Commit
    clock: Callable[[], datetime]

    async def __call__(self, command: RescreenNames) -> None:
        """Compare, and report what matches now and was not reported before.

        Raises:
            StoreUnavailable: The outcome is unknown; the same command may be sent again.
            Conflict: The screening changed at every attempt.
        """
        await retry_conflicts(lambda: self._rescreen(command))

    async def _rescreen(self, command: RescreenNames) -> None:
        tenant_id, kind = command.tenant_id, RecordKind.NAME_SCREENING
        try:
            current = await self.stores.records.get(tenant_id, kind, command.screening_id)
        except NotFound:
            return
        stored = StoredNameScreening.from_bytes(current.body)
        try:
            change = await self._compared(command, current, stored)
            if change is None:
                return
        except Erased:
            unwatched = replace(
                current, version=current.version + 1, indexes=by_mode_and_subject(stored.screening)
            )
            change = Change(tenant_id, (unwatched,))
        await self.commit(change)

    async def _compared(
        self, command: RescreenNames, current: Record, stored: StoredNameScreening
    ) -> Change | None:
        """Return the screening with what was found, and the case of what is new.

        None when a list could not be asked: the screening stays due, so the next sweep sends another command.
        """
        vault, tenant_id, screening = self.stores.vault, command.tenant_id, stored.screening
        subject_id, label = screening.subject_id, parts_label(screening.screening_id)
        parts = await unseal(vault, tenant_id, subject_id, label, stored.sealed, ScreeningParts)
        suppressed = {}
        if subject_id is not None:
            suppressed = dict(
                await self.suppressions.of_subject(tenant_id, subject_id, livemode=screening.livemode)
            )
        screened = await screen_all(
            self.screening, parts.request, tenant_id, suppressed, livemode=screening.livemode
        )
        if any(ErrorCause.CHECK_UNAVAILABLE in one.causes for one in screened.results):
            return None
        reported = tuple(dict.fromkeys((*parts.reported, *screened.counted)))
        update = {
            "sealed": await seal(
                vault, tenant_id, subject_id, label, parts.model_copy(update={"reported": reported})
            ),
            "checked": {**command.list_versions, **screened.list_versions},
        }
        version = current.version + 1
        record = replace(current, version=version, body=stored.model_copy(update=update).to_bytes())
        reasons = new_matches(screened.answers, parts.reported)
        if not reasons:
            return Change(tenant_id, (record,))
        case = open_case(tenant_id, screening, reasons, version, to_milliseconds(self.clock()))
        log.info("names.match_found", tenant_id=tenant_id, screening_id=screening.screening_id)
        return Change(
            tenant_id,
            (record, case_record(tenant_id, case)),
            audit_rows(tenant_id, case),
            events(tenant_id, case, version),
        )


@dataclass(slots=True)
class MonitoringSweep:
    """Asks for the comparison of every monitored name with lists that changed since its last one."""

    records: Records
    write: Callable[..., Awaitable[None]]
    versions: ListVersions
    clock: Callable[[], datetime]
    _settled: dict[tuple[TenantId, bool], Mapping[str, str]] = field(default_factory=dict)
    """The versions with which no name of the tenant and mode was left to be compared."""

    async def sweep(self) -> int:
        """Send a command for each screening that is due; return how many.

        Raises:
            StoreUnavailable: The store or the log is away; the next round tries again.
        """
        sent = 0
        async for tenant_id in tenant_ids(self.records, TENANTS_INDEX, PAGE):
            for livemode in (True, False):
                versions = await self.versions(tenant_id, livemode)
                if self._settled.get((tenant_id, livemode)) == versions:
                    continue
                found = await self._ask(tenant_id, versions, MOST - sent, livemode=livemode)
                if not found:
                    self._settled[tenant_id, livemode] = versions
                sent += found
        return sent

    async def _ask(
        self, tenant_id: TenantId, versions: Mapping[str, str], most: int, *, livemode: bool
    ) -> int:
        kind, index, sent = RecordKind.NAME_SCREENING, monitored(livemode=livemode), 0
        async for page in pages(self.records, tenant_id, kind, index, limit=PAGE):
            due = [record for record in page if _is_due(record, versions)][: most - sent]
            await self.write(*[self._command(record, versions) for record in due])
            sent += len(due)
            if sent >= most:
                break
        return sent

    def _command(self, record: Record, versions: Mapping[str, str]) -> Outgoing:
        about = StoredNameScreening.from_bytes(record.body).screening.screening_id
        command = RescreenNames(
            tenant_id=record.tenant_id,
            screening_id=about,
            requested_at=self.clock(),
            list_versions=dict(versions),
        )
        return Outgoing(Topic.SCREENING_COMMANDS, about.encode(), command.to_bytes())

    async def run(self, is_responsible: Callable[[], bool], every_s: float) -> None:
        """Sweep until cancelled, while this process is responsible."""
        while True:
            try:
                sent = await self.sweep() if is_responsible() else 0
            except StoreUnavailable:
                log.warning("monitoring.sweep_deferred")
            else:
                if sent:
                    log.info("monitoring.swept", commands=sent)
            await asyncio.sleep(every_s)

    @asynccontextmanager
    async def running(
        self, is_responsible: Callable[[], bool], every_s: float = EVERY_S
    ) -> AsyncIterator[None]:
        """Sweep in the background for the length of the context."""
        async with beside(lambda: self.run(is_responsible, every_s), "name-monitoring", every_s):
            yield


def _is_due(record: Record, versions: Mapping[str, str]) -> bool:
    checked = StoredNameScreening.from_bytes(record.body).checked
    return any(checked.get(name) != version for name, version in versions.items())
