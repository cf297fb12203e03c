"""Screen names: from the command to the stored screening with its audit row."""

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime

import structlog
from pydantic import ValidationError

from schemas.audit import Actor, AuditAction, AuditEvent
from schemas.base import to_milliseconds
from schemas.ids import SubjectId, derive_id
from schemas.name_screenings import (
    NameScreening,
    NameScreeningRequest,
    NamesScreened,
    ScreeningParts,
    ScreenNames,
    StoredNameScreening,
)
from schemas.problems import NotFound, ProblemCode, Refused
from streams.aggregate import key_reused
from streams.audit.commit import CommitAndPublish
from streams.audit.rows import open_actor, write_row
from streams.name_screenings.records import indexes, parts_label, request_label
from streams.name_screenings.screening import Screened, screen_all, without_matches
from streams.ports.errors import Damaged, Erased
from streams.ports.events import EventPublisher
from streams.ports.records import Change, Record, RecordKind
from streams.ports.screening import Screening, Suppression, Suppressions
from streams.ports.stores import Stores
from streams.privacy.sealing import open_subject_id, seal, subject_erased, unseal

log = structlog.get_logger(__name__)


class ScreenNamesOnce:
    """Execute each `ScreenNames` once; the same command again changes nothing."""

    def __init__(
        self,
        stores: Stores,
        screening: Screening,
        suppressions: Suppressions,
        clock: Callable[[], datetime],
        announcer: EventPublisher,
    ) -> None:
        self._stores = stores
        self._screening = screening
        self._suppressions = suppressions
        self._clock = clock
        self._commit = CommitAndPublish(stores.journal, announcer)

    async def __call__(self, command: ScreenNames) -> NamesScreened:
        """Screen the names; `replayed` when another request had the same screening made.

        Raises:
            Refused: The key was used for another body, or the subject was erased. Nothing was created.
            StoreUnavailable: The outcome is unknown; the same command may be sent again.
        """
        record = await self._find(command)
        if record is not None:
            return self._again(command, record)
        try:
            return await self._screen(command)
        except Erased:
            raise subject_erased() from None

    async def _find(self, command: ScreenNames) -> Record | None:
        kind = RecordKind.NAME_SCREENING
        try:
            return await self._stores.records.get(command.tenant_id, kind, command.screening_id)
        except NotFound:
            return None

    def _again(self, command: ScreenNames, record: Record) -> NamesScreened:
        if record.fingerprint != command.fingerprint:
            raise key_reused()
        first = StoredNameScreening.from_bytes(record.body)
        replayed = first.request_id != command.actor.request_id
        return NamesScreened(screening_id=command.screening_id, replayed=replayed)

    async def _screen(self, command: ScreenNames) -> NamesScreened:
        vault, tenant_id = self._stores.vault, command.tenant_id
        subject_id = None
        if command.subject_id is not None:
            subject_id = await open_subject_id(vault, tenant_id, command.subject_id)
        request = await self._open(command, subject_id)
        livemode = command.livemode
        suppressed: Mapping[tuple[str, str], Suppression] = {}
        if subject_id is not None:
            suppressed = await self._suppressions.of_subject(tenant_id, subject_id, livemode=livemode)
        screened = await screen_all(self._screening, request, tenant_id, suppressed, livemode=livemode)
        now = to_milliseconds(self._clock())
        screening = _screening(command, subject_id, request, screened, now)
        parts = ScreeningParts(request=request, results=screened.results, reported=screened.counted)
        label = parts_label(command.screening_id)
        sealed = await seal(vault, tenant_id, subject_id, label, parts)
        stored = StoredNameScreening(
            screening=screening,
            sealed=sealed,
            request_id=command.actor.request_id,
            checked=dict(screened.list_versions),
        )
        record = Record(
            tenant_id,
            RecordKind.NAME_SCREENING,
            command.screening_id,
            stored.to_bytes(),
            now,
            fingerprint=command.fingerprint,
            indexes=indexes(screening),
        )
        actor = await open_actor(vault, tenant_id, command.actor)
        row = _row(command, screening, actor)
        committed = await self._commit(Change(tenant_id, (record,), (row,)))
        log.info("names.screened", tenant_id=tenant_id, screening_id=command.screening_id)
        return self._again(command, committed.record)

    async def _open(self, command: ScreenNames, subject_id: SubjectId | None) -> NameScreeningRequest:
        label = request_label(command.screening_id)
        try:
            return await unseal(
                self._stores.vault,
                command.tenant_id,
                subject_id,
                label,
                command.sealed_request,
                NameScreeningRequest,
            )
        except (Damaged, ValidationError):
            message = "The request can no longer be read; send it again."
            raise Refused.because(ProblemCode.STORE_FAILED, message) from None


def _screening(
    command: ScreenNames,
    subject_id: SubjectId | None,
    request: NameScreeningRequest,
    screened: Screened,
    now: datetime,
) -> NameScreening:
    return NameScreening(
        screening_id=command.screening_id,
        subject_id=subject_id,
        created_at=now,
        results=without_matches(screened.results),
        list_versions=dict(screened.list_versions),
        monitor=request.monitor,
        livemode=command.livemode,
    )


def _row(command: ScreenNames, screening: NameScreening, actor: Actor) -> AuditEvent:
    counted = Counter(one.result for one in screening.results)
    names = "A name was" if len(screening.results) == 1 else f"{len(screening.results)} names were"
    return write_row(
        derive_id("aud", command.tenant_id, screening.screening_id),
        AuditAction.NAME_SCREENED,
        actor,
        screening.subject_id or screening.screening_id,
        screening.created_at,
        detail=f"{names} compared with the lists.",
        changes={
            "screening_id": screening.screening_id,
            "results": {str(result): count for result, count in sorted(counted.items())},
            "list_versions": screening.list_versions,
            "monitor": screening.monitor,
        },
        livemode=screening.livemode,
    )
