"""Create, edit, publish and archive flows; the flow's actor is the only writer (G23)."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol

from pydantic import ValidationError

from schemas.audit import Actor, AuditAction, AuditEvent
from schemas.base import to_milliseconds
from schemas.catalog import Capability
from schemas.enums import FlowStatus
from schemas.events import DecisionEvent, EventData, EventType
from schemas.flows import (
    ArchiveFlow,
    CreateFlow,
    EditFlow,
    Flow,
    FlowChanged,
    FlowCommand,
    FlowCommandBase,
    FlowDraft,
    PublishFlow,
    StoredFlow,
)
from schemas.ids import AuditEventId, EventId, FlowId, TenantId, derive_id
from schemas.problems import FieldProblem, NotFound, ProblemCode, Refused
from streams.aggregate import (
    Aggregates,
    AnsweredRequests,
    Pause,
    key_reused,
    not_found,
    retry_conflicts,
    with_request,
)
from streams.audit.rows import open_actor, write_row
from streams.flows import rules
from streams.ports.events import EventPublisher
from streams.ports.records import Change, Record, RecordKind
from streams.ports.stores import Stores, WorkingState


class Catalogue(Protocol):
    """Look up entries of the document catalogue."""

    async def some(self, codes: Sequence[str]) -> Mapping[str, Capability]:
        """Return the current entries of those codes that are in the catalogue."""
        ...


@dataclass(frozen=True, slots=True)
class _Move:
    """A flow after a command, with its audit action and event."""

    flow: Flow
    action: AuditAction
    detail: str
    event: EventType | None = None
    revision: bool = False
    """Whether its latest revision is new."""


class ChangeFlow:
    """Execute each command about a flow once; the same command again changes nothing."""

    def __init__(
        self,
        stores: Stores,
        catalogue: Catalogue,
        clock: Callable[[], datetime],
        state: WorkingState[AnsweredRequests],
        announcer: EventPublisher,
        pause: Pause = asyncio.sleep,
    ) -> None:
        self._stores = stores
        self._catalogue = catalogue
        self._clock = clock
        self._flows = Aggregates(stores.journal, announcer, state)
        self._pause = pause

    async def __call__(self, message: FlowCommand) -> FlowChanged:
        """Change the flow as the command says; the result is in the store.

        Raises:
            Refused: NOT_FOUND, FLOW_ARCHIVED, PRECONDITION_FAILED, IDEMPOTENCY_KEY_REUSED, or what is wrong
                with the draft, place by place.
            StoreUnavailable: The outcome is unknown; the same command may be sent again.
            Conflict: The flow changed at every attempt.
        """
        command = message.root
        if self._flows.has_answered(command.tenant_id, command.flow_id, _id(command)):
            return FlowChanged(flow_id=command.flow_id)
        if isinstance(command, CreateFlow):
            return await self._create(command)
        return await retry_conflicts(lambda: self._change(command), self._pause)

    async def _create(self, command: CreateFlow) -> FlowChanged:
        try:
            standing = await self._find(command)
        except NotFound:
            if command.copied_from is None:
                await self._entries(command.draft)
        else:
            return self._again(command, standing)
        now = to_milliseconds(self._clock())
        flow = Flow(
            flow_id=command.flow_id,
            status=FlowStatus.DRAFT,
            created_at=now,
            updated_at=now,
            **{name: getattr(command.draft, name) for name in FlowDraft.model_fields},
        )
        record = Record(
            tenant_id=command.tenant_id,
            kind=RecordKind.FLOW,
            id=flow.flow_id,
            body=StoredFlow(flow=flow, requests=(_id(command),)).to_bytes(),
            created_at=now,
            fingerprint=command.fingerprint,
            indexes=rules.indexes(flow),
        )
        move = _Move(flow, AuditAction.FLOW_CREATED, f"The flow {flow.flow_id} was created.")
        committed = await self._commit(command, move, record)
        return (
            FlowChanged(flow_id=flow.flow_id)
            if committed
            else self._again(command, await self._find(command))
        )

    def _again(self, command: CreateFlow, standing: Record) -> FlowChanged:
        if standing.fingerprint != command.fingerprint:
            raise key_reused()
        own = _id(command) in StoredFlow.from_bytes(standing.body).requests
        return FlowChanged(flow_id=command.flow_id, replayed=not own)

    async def _change(self, command: EditFlow | PublishFlow | ArchiveFlow) -> FlowChanged:
        try:
            record = await self._find(command)
        except NotFound:
            raise not_found() from None
        stored = StoredFlow.from_bytes(record.body)
        if _id(command) in stored.requests:
            self._flows.remember(command.tenant_id, command.flow_id, stored.requests)
            return FlowChanged(flow_id=command.flow_id)
        move = await self._move(command, stored.flow, record.version)
        if move.flow != stored.flow:
            updated = StoredFlow(flow=move.flow, requests=with_request(stored.requests, _id(command)))
            changed = replace(
                record, body=updated.to_bytes(), version=record.version + 1, indexes=rules.indexes(move.flow)
            )
            await self._commit(command, move, changed)
        return FlowChanged(flow_id=command.flow_id)

    async def _move(self, command: EditFlow | PublishFlow | ArchiveFlow, flow: Flow, version: int) -> _Move:
        now = to_milliseconds(self._clock())
        if isinstance(command, ArchiveFlow):
            detail = f"The flow {flow.flow_id} was archived."
            return _Move(
                rules.archived(flow, now), AuditAction.FLOW_ARCHIVED, detail, EventType.FLOW_ARCHIVED
            )
        if flow.status is FlowStatus.ARCHIVED:
            raise Refused.because(ProblemCode.FLOW_ARCHIVED, "The flow is archived; duplicate it instead.")
        if command.seen is not None and command.seen != version:
            message = "It has another version now; read it again."
            code = ProblemCode.PRECONDITION_FAILED
            field = FieldProblem(code=code, message=message, header="If-Match")
            raise Refused.because(code, message, field)
        if isinstance(command, EditFlow):
            draft = _with(rules.draft_of(flow), command.changes)
            if draft == rules.draft_of(flow):
                return _Move(flow, AuditAction.FLOW_UPDATED, "")
            await self._entries(draft)
            detail = f"The draft of flow {flow.flow_id} was changed."
            return _Move(rules.edited(flow, draft, now), AuditAction.FLOW_UPDATED, detail)
        draft = rules.draft_of(flow)
        configuration = rules.freeze(draft, await self._entries(draft))
        after = rules.published(flow, configuration, command.reviewer_id, now)
        detail = f"Revision {after.published_revision} of flow {flow.flow_id} was published."
        return _Move(
            after, AuditAction.FLOW_PUBLISHED, detail, EventType.FLOW_PUBLISHED, revision=after != flow
        )

    async def _entries(self, draft: FlowDraft) -> Mapping[str, Capability]:
        """Return the catalogue entries a draft names, or raise `Refused` if the draft is invalid."""
        entries = await self._catalogue.some(rules.codes_of(draft))
        rules.require_valid(draft, entries)
        return entries

    async def _find(self, command: FlowCommandBase) -> Record:
        return await self._stores.records.get(command.tenant_id, RecordKind.FLOW, command.flow_id)

    async def _commit(self, command: FlowCommandBase, move: _Move, record: Record) -> bool:
        """Commit the flow with its new revision, audit row and event; return False when another was first."""
        actor = await open_actor(self._stores.vault, command.tenant_id, command.actor)
        records = [record]
        if move.revision:
            records.append(_revision_record(command.tenant_id, move.flow))
        change = Change(
            command.tenant_id,
            tuple(records),
            (_row(command, move, actor, record.version),),
            _events(command.tenant_id, move, record.version),
        )
        requests = StoredFlow.from_bytes(record.body).requests
        return await self._flows.commit(change, command.flow_id, requests)


def _id(command: FlowCommandBase) -> str:
    return command.actor.request_id


def _with(draft: FlowDraft, changes: Mapping[str, Any]) -> FlowDraft:
    try:
        return FlowDraft.model_validate({**draft.model_dump(), **changes})
    except ValidationError:
        raise Refused.because(ProblemCode.VALIDATION_FAILED, "The draft is not valid.") from None


def revision_id(flow_id: FlowId, revision: int) -> str:
    """Return the id of a revision's record."""
    return f"{flow_id}.{revision}"


def revisions_index(flow_id: FlowId) -> tuple[str, str]:
    """Return the index of a flow's revisions."""
    return "flow", flow_id


def _revision_record(tenant_id: TenantId, flow: Flow) -> Record:
    revision = flow.published
    if revision is None:
        raise ValueError("the flow was never published")
    return Record(
        tenant_id=tenant_id,
        kind=RecordKind.FLOW_REVISION,
        id=revision_id(flow.flow_id, revision.revision),
        body=revision.to_bytes(),
        created_at=revision.published_at,
        indexes=(revisions_index(flow.flow_id),),
    )


def _row(command: FlowCommandBase, move: _Move, actor: Actor, version: int) -> AuditEvent:
    flow = move.flow
    changes: dict[str, Any] = {"status": flow.status, "flow_type": flow.flow_type, "version": version}
    if move.revision:
        changes["revision"] = flow.published_revision
    event_id = AuditEventId(derive_id("aud", command.tenant_id, flow.flow_id, move.action, str(version)))
    return write_row(
        event_id, move.action, actor, flow.flow_id, flow.updated_at, detail=move.detail, changes=changes
    )


def _events(tenant_id: TenantId, move: _Move, version: int) -> tuple[DecisionEvent, ...]:
    if move.event is None:
        return ()
    flow = move.flow
    return (
        DecisionEvent(
            id=EventId(derive_id("evt", tenant_id, flow.flow_id, move.event, str(version))),
            type=move.event,
            timestamp=flow.updated_at,
            tenant_id=tenant_id,
            livemode=True,
            sequence=version,
            data=EventData(flow_id=flow.flow_id, status=flow.status),
        ),
    )
