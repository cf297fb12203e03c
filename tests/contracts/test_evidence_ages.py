"""What every store promises about the age of evidence, and about a first answer that is replaced."""

from dataclasses import replace
from datetime import timedelta

import pytest

from schemas.enums import EvidenceKind, RetentionPolicy
from schemas.ids import EvidenceId, derive_id
from schemas.problems import NotFound
from streams.ports.evidence import EvidenceDraft
from streams.ports.records import Change, Position
from streams.ports.stores import Stores
from tests.builders import ACME, GLOBEX, NOW, build_evidence_draft, build_record
from tests.contracts.adapters import Breaker

DOCUMENTS, FACES = RetentionPolicy.DOCUMENT_P90D, RetentionPolicy.BIOMETRIC_P30D
LARGE = b"large image" * 20_000
LATER = NOW + timedelta(days=1)


def piece(name: str, *, hours: float = 0, content: bytes = b"image", **changes: object) -> EvidenceDraft:
    """A document's image that was stored so many hours before now."""
    evidence_id = EvidenceId(derive_id("evd", name))
    return build_evidence_draft(
        content, evidence_id=evidence_id, created_at=NOW - timedelta(hours=hours), **changes
    )


def ids(*names: str) -> list[EvidenceId]:
    """Their ids."""
    return [EvidenceId(derive_id("evd", name)) for name in names]


async def oldest(
    stores: Stores, *, hours: float = -1, limit: int = 10, after: EvidenceDraft | None = None
) -> list[EvidenceId]:
    """The documents stored more than so many hours ago."""
    position = None if after is None else Position(after.row.created_at, after.row.evidence_id)
    before = NOW - timedelta(hours=hours)
    rows = await stores.ages.oldest(ACME, DOCUMENTS, created_until=before, limit=limit, after=position)
    return [row.evidence_id for row in rows]


async def test_what_is_older_than_a_moment_comes_oldest_first(stores: Stores) -> None:
    for name, hours in (("b", 30), ("new", 1), ("a", 80), ("c", 26)):
        await stores.evidence.put([piece(name, hours=hours)])

    assert await oldest(stores, hours=24) == ids("a", "b", "c")
    assert await oldest(stores, hours=26) == ids("a", "b", "c")
    assert await oldest(stores, hours=26.01) == ids("a", "b")
    assert await oldest(stores) == ids("a", "b", "c", "new")


async def test_pages_of_what_is_old_follow_each_other(stores: Stores) -> None:
    drafts = [piece(str(number), hours=100 - 11 * number) for number in range(8)]
    await stores.evidence.put(drafts)

    first = await oldest(stores, limit=3)
    second = await oldest(stores, limit=3, after=drafts[2])
    third = await oldest(stores, limit=3, after=drafts[5])

    assert [first, second, third] == [ids(*"012"), ids(*"345"), ids(*"67")]


async def test_ages_are_those_of_one_tenant_and_one_policy(stores: Stores) -> None:
    await stores.evidence.put([piece("ours")])
    await stores.evidence.put([piece("theirs", tenant_id=GLOBEX)])
    face = piece("face", kind=EvidenceKind.SELFIE, retention_policy=FACES)
    await stores.evidence.put([face])

    rows = await stores.ages.oldest(ACME, FACES, created_until=LATER, limit=10)
    assert await oldest(stores) == ids("ours")
    assert rows == [face.row]


@pytest.mark.parametrize("content", [b"image", LARGE], ids=["small", "large"])
async def test_what_is_removed_is_neither_there_nor_listed(
    stores: Stores, breaker: Breaker, content: bytes
) -> None:
    await stores.evidence.put([piece("old", content=content), piece("other", content=content)])

    await stores.ages.remove(ACME, ids("old", "unknown"))

    with pytest.raises(NotFound):
        await stores.evidence.describe(ACME, *ids("old"))
    with pytest.raises(NotFound):
        await stores.evidence.get(ACME, *ids("old"))
    with pytest.raises((StopIteration, IndexError, KeyError)):
        breaker.read(*ids("old"))
    assert await oldest(stores) == ids("other")
    assert await stores.evidence.get(ACME, *ids("other")) == content


async def test_removing_twice_or_for_another_tenant_removes_nothing_more(stores: Stores) -> None:
    await stores.evidence.put([piece("ours"), piece("old")])

    await stores.ages.remove(GLOBEX, ids("ours"))
    await stores.ages.remove(ACME, ids("old"))
    await stores.ages.remove(ACME, ids("old"))
    await stores.ages.remove(ACME, [])

    assert await oldest(stores) == ids("ours")


async def test_discarded_evidence_is_listed_no_more(stores: Stores) -> None:
    await stores.evidence.put([piece("a", hours=50), piece("b", hours=2)])

    await stores.evidence.discard(ACME, ids("a"))

    assert await oldest(stores) == ids("b")


async def test_evidence_that_was_put_again_has_its_new_age(stores: Stores) -> None:
    await stores.evidence.put([piece("a", hours=50)])
    await stores.evidence.discard(ACME, ids("a"))
    await stores.evidence.put([piece("a", hours=2)])

    assert await oldest(stores, hours=10) == []
    assert await oldest(stores) == ids("a")


async def test_a_change_may_take_the_first_answer_back(stores: Stores) -> None:
    record = build_record(body=b'{"first":1}')
    await stores.journal.commit(Change(ACME, (record,)))
    await stores.journal.commit(Change(ACME, (replace(record, body=b'{"second":2}', version=2),)))
    stored = await stores.records.get(ACME, record.kind, record.id)
    redacted = replace(record, body=b"{}", version=3)

    change = Change(ACME, (redacted,), first_body=b'{"first":0}')
    await stores.journal.commit(change)
    again = await stores.journal.commit(change)

    found = await stores.records.get(ACME, record.kind, record.id)
    assert (stored.body, stored.first_body) == (b'{"second":2}', b'{"first":1}')
    assert (found.body, found.first_body, found.version) == (b"{}", b'{"first":0}', 3)
    assert (again.won, again.record.first_body) == (False, b'{"first":0}')
    assert (found.fingerprint, found.created_at) == (record.fingerprint, record.created_at)
