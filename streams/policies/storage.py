"""The records of policies: one small one, the draft's text, and each revision's text (G110, G131)."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from schemas.ids import TenantId
from schemas.policy_records import Policy, PolicyShadow, PublishedRevision, StoredPolicy, StoredText
from schemas.problems import NotFound
from streams.policies.loading import FIRST_REVISION, digest, first_text
from streams.policies.reading.document import POLICY
from streams.ports.records import RecordKind, Records

POLICIES: Final = (POLICY,)
"""The policies of every tenant (G110)."""


@dataclass(frozen=True, slots=True)
class VersionedPolicy:
    """A policy and the version of its record."""

    stored: StoredPolicy
    version: int
    """0: nothing was ever changed, the policy is the first one."""


def first_revision() -> PublishedRevision:
    """Return the revision that every tenant has from the start (G131)."""
    return PublishedRevision(
        revision=FIRST_REVISION, sha256=digest(first_text()), published_at=None, published_by=None
    )


def revision_id(policy: str, revision: int) -> str:
    """Return the id of a revision's record."""
    return f"{policy}.{revision}"


def revisions_index(policy: str) -> tuple[str, str]:
    """Return the index of a policy's revisions."""
    return "policy", policy


async def load_policy(records: Records, tenant_id: TenantId, policy: str) -> VersionedPolicy:
    """Return a policy; what was never changed is derived, not stored.

    Raises:
        NotFound: There is no policy of this name.
    """
    if policy not in POLICIES:
        raise NotFound(policy)
    try:
        record = await records.get(tenant_id, RecordKind.POLICY, policy)
    except NotFound:
        return VersionedPolicy(StoredPolicy(published=first_revision()), 0)
    return VersionedPolicy(_parsed(record.body), record.version)


@lru_cache(maxsize=256)  # each payment reads it
def _parsed(body: bytes) -> StoredPolicy:
    return StoredPolicy.from_bytes(body)


async def load_draft(records: Records, tenant_id: TenantId, policy: str) -> bytes:
    """Return the text of the draft, or raise `NotFound`."""
    record = await records.get(tenant_id, RecordKind.POLICY_DRAFT, policy)
    return StoredText.from_bytes(record.body).text


async def load_shadow(records: Records, tenant_id: TenantId, policy: str) -> bytes:
    """Return the text that runs beside the published one, or raise `NotFound`."""
    record = await records.get(tenant_id, RecordKind.POLICY_SHADOW, policy)
    return StoredText.from_bytes(record.body).text


async def load_revision(
    records: Records, tenant_id: TenantId, policy: str, revision: int
) -> tuple[PublishedRevision, bytes]:
    """Return a revision and its text, or raise `NotFound`."""
    if policy not in POLICIES:
        raise NotFound(policy)
    try:
        record = await records.get(tenant_id, RecordKind.POLICY_REVISION, revision_id(policy, revision))
    except NotFound:
        if revision != FIRST_REVISION:
            raise
        return first_revision(), first_text()
    stored = StoredText.from_bytes(record.body)
    if stored.revision is None:
        raise NotFound(policy)
    return stored.revision, stored.text


def shown(policy: str, stored: StoredPolicy) -> Policy:
    """Return the policy as its tenant sees it."""
    shadow = stored.shadow
    return Policy(
        name=policy,
        published=stored.published,
        draft=stored.draft,
        shadow=None if shadow is None else PolicyShadow(**shadow.model_dump(exclude={"sha256"})),
        proposed_by=None if stored.proposal is None else stored.proposal.proposed_by,
    )
