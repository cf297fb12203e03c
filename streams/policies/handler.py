"""Draft, publish and shadow policies; the policy's actor is the only writer (G110)."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from schemas.audit import AuditAction
from schemas.base import to_milliseconds
from schemas.enums import ActorType
from schemas.events import DecisionEvent, EventData, EventType
from schemas.ids import AuditEventId, EventId, TenantId, derive_id
from schemas.policies import Feature
from schemas.policy_records import (
    AnyPolicyCommand,
    DraftPolicy,
    PolicyChanged,
    PolicyCommand,
    PolicyDraft,
    PolicyProposal,
    PublishedRevision,
    PublishPolicy,
    ShadowPolicy,
    StoredPolicy,
    StoredShadow,
    StoredText,
)
from schemas.problems import NotFound, ProblemCode, Refused
from schemas.tenant_settings import TenantSettings
from streams.aggregate import Pause, not_found, retry_conflicts, with_request
from streams.audit.commit import Commit
from streams.audit.rows import open_actor, write_row
from streams.policies.in_use import KnownLists, any_list, counting
from streams.policies.loading import FIRST_REVISION, digest, first_text, load
from streams.policies.published import PolicyUnavailable, PublishedPolicies
from streams.policies.storage import (
    VersionedPolicy,
    first_revision,
    load_draft,
    load_policy,
    load_revision,
    load_shadow,
    revision_id,
    revisions_index,
)
from streams.ports.errors import Conflict
from streams.ports.records import Change, Record, RecordKind
from streams.ports.stores import Stores

ReadSettings = Callable[[TenantId], Awaitable[TenantSettings]]


@dataclass(frozen=True, slots=True)
class _Move:
    """A policy after a command, and what is written with it."""

    after: StoredPolicy
    action: AuditAction
    texts: tuple[Record, ...] = ()
    proposed: bool = False


class ChangePolicy:
    """Execute each command about a policy once; the same command again changes nothing."""

    def __init__(
        self,
        stores: Stores,
        commit: Commit,
        settings: ReadSettings,
        clock: Callable[[], datetime],
        known_lists: KnownLists = any_list,
        pause: Pause = asyncio.sleep,
    ) -> None:
        self._stores = stores
        self._policies = PublishedPolicies(stores.records)
        self._commit = commit
        self._settings = settings
        self._clock = clock
        self._known_lists = known_lists
        self._pause = pause

    async def __call__(self, message: PolicyCommand) -> PolicyChanged:
        """Change the policy as the command says; the result is in the store.

        Raises:
            Refused: NOT_FOUND, POLICY_INVALID, API_KEY_NOT_ALLOWED, SECOND_REVIEWER_MUST_DIFFER.
            StoreUnavailable: The outcome is unknown; the same command may be sent again.
            Conflict: The policy changed at every attempt.
        """
        return await retry_conflicts(lambda: self._change(message.root), self._pause)

    async def _change(self, command: AnyPolicyCommand) -> PolicyChanged:
        try:
            found = await load_policy(self._stores.records, command.tenant_id, command.policy)
            move = await self._move(command, found.stored)
        except NotFound:
            raise not_found() from None
        if move is None:
            return PolicyChanged(policy=command.policy, proposed=found.stored.proposal is not None)
        after = move.after.model_copy(
            update={"requests": with_request(found.stored.requests, command.actor.request_id)}
        )
        await self._store(command, found, replace(move, after=after))
        return PolicyChanged(policy=command.policy, proposed=move.proposed)

    async def _move(self, command: AnyPolicyCommand, stored: StoredPolicy) -> _Move | None:
        """Return what the command changes; None when that is nothing."""
        if command.actor.request_id in stored.requests:
            return None
        now = to_milliseconds(self._clock())
        match command:
            case DraftPolicy():
                return _drafted(command, stored, now)
            case PublishPolicy():
                return await self._publish(command, stored, now)
            case ShadowPolicy():
                return await self._shadow(command, stored, now)

    async def _publish(self, command: PublishPolicy, stored: StoredPolicy, now: datetime) -> _Move | None:
        tenant_id, policy = command.tenant_id, command.policy
        text = await self._text(command, command.from_revision)
        sha256 = digest(text)
        if sha256 == stored.published.sha256:
            return None
        document = await asyncio.to_thread(load, text, await self._known_lists(tenant_id))
        by = command.actor.actor_id or ""
        if (await self._settings(tenant_id)).policy_four_eyes and not _is_second(command, stored, sha256):
            proposal = PolicyProposal(sha256=sha256, proposed_by=by, proposed_at=now)
            after = stored.model_copy(update={"proposal": proposal})
            return _Move(after, AuditAction.POLICY_PROPOSED, proposed=True)
        revision = PublishedRevision(
            revision=stored.published.revision + 1, sha256=sha256, published_at=now, published_by=by
        )
        beside = await self._features_beside(command, stored)
        counted = counting(stored.counted, (*document.features, *beside))
        update = {"published": revision, "proposal": None, "counted": counted}
        after = stored.model_copy(update=update)
        texts = [_revision_record(tenant_id, policy, revision, text, now)]
        if revision.revision == FIRST_REVISION + 1:
            # The first policy may be another in a later release; what was in force stays readable.
            earlier = now - timedelta(milliseconds=1)
            texts.append(_revision_record(tenant_id, policy, first_revision(), first_text(), earlier))
        return _Move(after, AuditAction.POLICY_PUBLISHED, tuple(texts))

    async def _shadow(self, command: ShadowPolicy, stored: StoredPolicy, now: datetime) -> _Move | None:
        before = stored.shadow
        if command.revision is None and not command.draft:
            counted = counting(stored.counted, await self._features_published(command))
            ended = stored.model_copy(update={"shadow": None, "counted": counted})
            return None if before is None else _Move(ended, AuditAction.POLICY_SHADOWED)
        text = await self._text(command, command.revision)
        shadow = StoredShadow(revision=command.revision, draft=command.draft, since=now, sha256=digest(text))
        if before is not None and shadow == before.model_copy(update={"since": now}):
            return None
        document = await asyncio.to_thread(load, text, await self._known_lists(command.tenant_id))
        published, version = await self._features_published(command), stored.shadow_version + 1
        counted = counting(stored.counted, (*published, *document.features))
        after = stored.model_copy(update={"shadow": shadow, "shadow_version": version, "counted": counted})
        body = StoredText(text=text).to_bytes()
        record = Record(
            command.tenant_id, RecordKind.POLICY_SHADOW, command.policy, body, now, version=version
        )
        return _Move(after, AuditAction.POLICY_SHADOWED, (record,))

    async def _features_published(self, command: AnyPolicyCommand) -> tuple[Feature, ...]:
        """Return the features of the published text; none of one that does not load any more."""
        try:
            return (await self._policies.current(command.tenant_id, command.policy)).features
        except PolicyUnavailable:
            return ()

    async def _features_beside(self, command: AnyPolicyCommand, stored: StoredPolicy) -> tuple[Feature, ...]:
        """Return the features of the text that runs beside the published one; none without such a text."""
        if stored.shadow is None:
            return ()
        try:
            text = await load_shadow(self._stores.records, command.tenant_id, command.policy)
            return (await asyncio.to_thread(load, text)).features
        except (NotFound, Refused):
            return ()

    async def _text(self, command: AnyPolicyCommand, revision: int | None) -> bytes:
        """Return the text of a revision, or of the draft; raises `NotFound`."""
        if revision is None:
            return await load_draft(self._stores.records, command.tenant_id, command.policy)
        return (await load_revision(self._stores.records, command.tenant_id, command.policy, revision))[1]

    async def _store(self, command: AnyPolicyCommand, found: VersionedPolicy, move: _Move) -> None:
        now, version = to_milliseconds(self._clock()), found.version + 1
        actor = await open_actor(self._stores.vault, command.tenant_id, command.actor)
        about = (command.tenant_id, command.policy, move.action, str(version))
        row = write_row(
            AuditEventId(derive_id("aud", *about)),
            move.action,
            actor,
            command.policy,
            now,
            detail=f"The policy {command.policy} was {move.action.partition('.')[2]}.",
            changes=_changes(move),
        )
        body = move.after.to_bytes()
        record = Record(command.tenant_id, RecordKind.POLICY, command.policy, body, now, version=version)
        events = _events(command, move, now, version)
        committed = await self._commit(Change(command.tenant_id, (record, *move.texts), (row,), events))
        if not committed.won:
            raise Conflict(command.policy)


def _drafted(command: DraftPolicy, stored: StoredPolicy, now: datetime) -> _Move | None:
    sha256 = digest(command.text)
    if stored.draft is not None and stored.draft.sha256 == sha256:
        return None
    version = stored.draft_version + 1
    body = StoredText(text=command.text).to_bytes()
    text = Record(command.tenant_id, RecordKind.POLICY_DRAFT, command.policy, body, now, version=version)
    draft = PolicyDraft(sha256=sha256, updated_at=now)
    update = {"draft": draft, "draft_version": version, "proposal": None}
    return _Move(stored.model_copy(update=update), AuditAction.POLICY_DRAFTED, (text,))


def _is_second(command: PublishPolicy, stored: StoredPolicy, sha256: str) -> bool:
    """Return whether a second member agrees to the text that a first one proposed (G110).

    Raises:
        Refused: A key asks, or the first member once more.
    """
    if command.actor.actor_type is not ActorType.REVIEWER:
        message = "Publishing needs two members here; a key cannot agree."
        raise Refused.because(ProblemCode.API_KEY_NOT_ALLOWED, message)
    proposal = stored.proposal
    if proposal is None or proposal.sha256 != sha256:
        return False
    if proposal.proposed_by == command.actor.actor_id:
        message = "A second member must publish what you proposed."
        raise Refused.because(ProblemCode.SECOND_REVIEWER_MUST_DIFFER, message)
    return True


def _revision_record(
    tenant_id: TenantId, policy: str, revision: PublishedRevision, text: bytes, now: datetime
) -> Record:
    return Record(
        tenant_id,
        RecordKind.POLICY_REVISION,
        revision_id(policy, revision.revision),
        StoredText(text=text, revision=revision).to_bytes(),
        now,
        indexes=(revisions_index(policy),),
    )


def _changes(move: _Move) -> dict[str, object]:
    after = move.after
    match move.action:
        case AuditAction.POLICY_PUBLISHED:
            return {"revision": after.published.revision, "sha256": after.published.sha256}
        case AuditAction.POLICY_PROPOSED:
            return {"sha256": after.proposal.sha256 if after.proposal else None}
        case AuditAction.POLICY_SHADOWED:
            shadow = after.shadow
            return {"revision": shadow and shadow.revision, "sha256": shadow and shadow.sha256}
        case _:
            return {"sha256": after.draft.sha256 if after.draft else None}


def _events(command: AnyPolicyCommand, move: _Move, now: datetime, version: int) -> tuple[DecisionEvent, ...]:
    if move.action is not AuditAction.POLICY_PUBLISHED:
        return ()
    event_id = derive_id("evt", command.tenant_id, command.policy, EventType.POLICY_PUBLISHED, str(version))
    data = EventData(policy=command.policy, policy_revision=move.after.published.revision)
    return (
        DecisionEvent(
            id=EventId(event_id),
            type=EventType.POLICY_PUBLISHED,
            timestamp=now,
            tenant_id=command.tenant_id,
            livemode=True,
            sequence=version,
            data=data,
        ),
    )
