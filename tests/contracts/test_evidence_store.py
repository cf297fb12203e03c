"""What every store of evidence promises."""

import asyncio
from datetime import timedelta

import pytest

from schemas.enums import EvidenceKind
from schemas.ids import EvidenceId, SubjectId, derive_id
from schemas.problems import NotFound
from streams.ports.errors import Damaged, Erased
from streams.ports.evidence import EvidenceDraft
from streams.ports.stores import Stores
from tests.builders import ACME, GLOBEX, NOW, SUBJECT, build_evidence_draft
from tests.contracts.adapters import Breaker

DOCUMENT = EvidenceId(derive_id("evd", "document"))
SELFIE = EvidenceId(derive_id("evd", "selfie"))
SMALL, LARGE = b"small image", b"large image" * 20_000


def drafts(content: bytes = SMALL) -> tuple[EvidenceDraft, EvidenceDraft]:
    """A document and a selfie of one subject."""
    selfie = build_evidence_draft(content[::-1], evidence_id=SELFIE, kind=EvidenceKind.SELFIE)
    return build_evidence_draft(content, evidence_id=DOCUMENT), selfie


@pytest.mark.parametrize("content", [b"", SMALL, LARGE], ids=["empty", "small", "large"])
async def test_evidence_comes_back_as_it_was_put(stores: Stores, content: bytes) -> None:
    await stores.evidence.put(drafts(content))

    assert await stores.evidence.get(ACME, DOCUMENT) == content
    assert await stores.evidence.get(ACME, SELFIE) == content[::-1]


async def test_evidence_is_described_without_being_opened(stores: Stores) -> None:
    await stores.evidence.put(drafts())

    assert await stores.evidence.describe(ACME, SELFIE) == drafts()[1].row


async def test_evidence_is_invisible_to_another_tenant(stores: Stores) -> None:
    await stores.evidence.put(drafts())

    with pytest.raises(NotFound):
        await stores.evidence.get(GLOBEX, DOCUMENT)
    with pytest.raises(NotFound):
        await stores.evidence.describe(GLOBEX, DOCUMENT)


async def test_putting_nothing_is_fine(stores: Stores) -> None:
    await stores.evidence.put(())


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["small", "large"])
async def test_an_id_that_is_kept_stays_as_it_is(stores: Stores, content: bytes) -> None:
    await stores.evidence.put([build_evidence_draft(content)])

    await stores.evidence.put([build_evidence_draft(content + b"other")])

    assert await stores.evidence.get(ACME, DOCUMENT) == content


async def test_a_new_id_beside_a_kept_one_is_put(stores: Stores) -> None:
    await stores.evidence.put(drafts()[:1])

    await stores.evidence.put(drafts(b"other"))

    assert await stores.evidence.get(ACME, DOCUMENT) == SMALL
    assert await stores.evidence.get(ACME, SELFIE) == b"rehto"


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["small", "large"])
async def test_of_many_puts_at_once_one_counts(stores: Stores, content: bytes) -> None:
    rivals = [content + b"%d" % n for n in range(20)]

    await asyncio.gather(*(stores.evidence.put([build_evidence_draft(rival)]) for rival in rivals))

    assert await stores.evidence.get(ACME, DOCUMENT) in rivals


async def test_a_new_subjects_first_puts_at_once_are_all_readable(stores: Stores) -> None:
    names = [EvidenceId(derive_id("evd", str(n))) for n in range(30)]
    puts = [stores.evidence.put([build_evidence_draft(n.encode(), evidence_id=n)]) for n in names]

    await asyncio.gather(*puts)

    assert [await stores.evidence.get(ACME, n) for n in names] == [n.encode() for n in names]


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["small", "large"])
async def test_what_lies_on_the_disk_shows_nothing_of_the_image(
    stores: Stores, breaker: Breaker, content: bytes
) -> None:
    await stores.evidence.put(drafts(content))

    assert b"image" not in breaker.read(DOCUMENT)


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("place", [0, 5, 20, -1], ids=["version", "nonce", "content", "tag"])
async def test_a_flipped_bit_is_damage(stores: Stores, breaker: Breaker, content: bytes, place: int) -> None:
    await stores.evidence.put(drafts(content))
    sealed = bytearray(breaker.read(DOCUMENT))
    sealed[place] ^= 1

    breaker.write(DOCUMENT, bytes(sealed))

    with pytest.raises(Damaged):
        await stores.evidence.get(ACME, DOCUMENT)


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("left", [0, 1, 13, 30])
async def test_torn_evidence_is_damage(stores: Stores, breaker: Breaker, content: bytes, left: int) -> None:
    await stores.evidence.put(drafts(content))

    breaker.write(DOCUMENT, breaker.read(DOCUMENT)[:left])

    with pytest.raises(Damaged):
        await stores.evidence.get(ACME, DOCUMENT)


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["small", "large"])
async def test_evidence_swapped_between_two_ids_is_damage(
    stores: Stores, breaker: Breaker, content: bytes
) -> None:
    await stores.evidence.put(drafts(content))
    document, selfie = breaker.read(DOCUMENT), breaker.read(SELFIE)

    breaker.write(DOCUMENT, selfie)
    breaker.write(SELFIE, document)

    with pytest.raises(Damaged):
        await stores.evidence.get(ACME, DOCUMENT)
    with pytest.raises(Damaged):
        await stores.evidence.get(ACME, SELFIE)


async def test_damage_to_one_piece_spares_the_other(stores: Stores, breaker: Breaker) -> None:
    await stores.evidence.put(drafts())

    breaker.write(DOCUMENT, b"rubbish")

    assert await stores.evidence.get(ACME, SELFIE) == SMALL[::-1]


async def test_an_erased_subjects_evidence_is_erased(stores: Stores) -> None:
    await stores.evidence.put(drafts())

    await stores.vault.destroy(ACME, SUBJECT)

    with pytest.raises(Erased):
        await stores.evidence.get(ACME, DOCUMENT)


async def test_of_an_erased_subject_nothing_of_a_put_is_kept(stores: Stores) -> None:
    await stores.vault.destroy(ACME, SUBJECT)
    other = build_evidence_draft(evidence_id=SELFIE, subject_id=SubjectId("customer-18"))

    with pytest.raises(Erased):
        await stores.evidence.put([other, build_evidence_draft()])

    with pytest.raises(NotFound):
        await stores.evidence.describe(ACME, SELFIE)


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["small", "large"])
async def test_discarded_evidence_is_gone(stores: Stores, content: bytes) -> None:
    await stores.evidence.put(drafts(content))

    await stores.evidence.discard(ACME, [DOCUMENT, EvidenceId(derive_id("evd", "unknown"))])

    with pytest.raises(NotFound):
        await stores.evidence.get(ACME, DOCUMENT)
    assert await stores.evidence.get(ACME, SELFIE) == content[::-1]


async def test_nobody_discards_another_tenants_evidence(stores: Stores) -> None:
    await stores.evidence.put(drafts())

    await stores.evidence.discard(GLOBEX, [DOCUMENT])

    assert await stores.evidence.get(ACME, DOCUMENT) == SMALL


async def test_the_sweeper_takes_nothing_that_is_kept(stores: Stores) -> None:
    await stores.evidence.put(drafts(LARGE))

    await stores.evidence.sweep_orphans(NOW + timedelta(days=36_500))

    assert await stores.evidence.get(ACME, DOCUMENT) == LARGE
