"""What every vault promises."""

import asyncio
import base64

import pytest

from schemas.ids import SubjectId
from streams.ports.errors import Damaged, Erased
from streams.ports.stores import Stores
from tests.builders import ACME, GLOBEX, SUBJECT

SOMEBODY_ELSE = SubjectId("customer-18")


async def test_a_sealed_value_opens(stores: Stores) -> None:
    sealed = await stores.vault.seal(ACME, SUBJECT, "fields", b"ANNA MARIA")

    assert await stores.vault.open(ACME, SUBJECT, "fields", sealed) == b"ANNA MARIA"


async def test_a_sealed_value_shows_nothing_of_the_plain_one(stores: Stores) -> None:
    sealed = await stores.vault.seal(ACME, SUBJECT, "fields", b"ANNA MARIA")

    assert b"ANNA" not in base64.b64decode(sealed)


async def test_a_value_sealed_twice_never_looks_the_same(stores: Stores) -> None:
    sealed = {await stores.vault.seal(ACME, SUBJECT, "fields", b"") for _ in range(20)}

    assert len(sealed) == 20


@pytest.mark.parametrize(
    ("tenant", "subject", "label"),
    [(GLOBEX, SUBJECT, "fields"), (ACME, SOMEBODY_ELSE, "fields"), (ACME, SUBJECT, "other")],
    ids=["another tenant", "another subject", "another label"],
)
async def test_a_value_opens_for_nobody_and_nothing_else(
    stores: Stores, tenant: str, subject: SubjectId, label: str
) -> None:
    sealed = await stores.vault.seal(ACME, SUBJECT, "fields", b"plain")
    await stores.vault.seal(GLOBEX, SUBJECT, "fields", b"they have a key too")
    await stores.vault.seal(ACME, SOMEBODY_ELSE, "fields", b"they have a key too")

    with pytest.raises(Damaged):
        await stores.vault.open(type(ACME)(tenant), subject, label, sealed)


async def test_a_value_of_a_subject_without_a_key_is_damaged(stores: Stores) -> None:
    sealed = await stores.vault.seal(ACME, SUBJECT, "fields", b"plain")

    with pytest.raises(Damaged):
        await stores.vault.open(ACME, SOMEBODY_ELSE, "fields", sealed)


async def test_any_flipped_bit_is_noticed(stores: Stores) -> None:
    sealed = base64.b64decode(await stores.vault.seal(ACME, SUBJECT, "fields", b"plain"))

    for place in range(len(sealed)):
        flipped = bytearray(sealed)
        flipped[place] ^= 1 << place % 8
        with pytest.raises(Damaged):
            await stores.vault.open(ACME, SUBJECT, "fields", base64.b64encode(flipped).decode())


@pytest.mark.parametrize("nonsense", ["", "AQ==", "not base64!", "\u00e9", "QUJD" * 20])
async def test_nonsense_is_damaged(stores: Stores, nonsense: str) -> None:
    await stores.vault.seal(ACME, SUBJECT, "fields", b"plain")

    with pytest.raises(Damaged):
        await stores.vault.open(ACME, SUBJECT, "fields", nonsense)


async def test_a_destroyed_key_opens_nothing(stores: Stores) -> None:
    sealed = await stores.vault.seal(ACME, SUBJECT, "fields", b"plain")

    await stores.vault.destroy(ACME, SUBJECT)

    with pytest.raises(Erased):
        await stores.vault.open(ACME, SUBJECT, "fields", sealed)


async def test_an_erased_subject_gets_no_new_key(stores: Stores) -> None:
    await stores.vault.destroy(ACME, SUBJECT)

    with pytest.raises(Erased):
        await stores.vault.seal(ACME, SUBJECT, "fields", b"plain")


async def test_destroying_one_subjects_key_spares_the_others(stores: Stores) -> None:
    stored = [
        (tenant, subject, await stores.vault.seal(tenant, subject, "fields", b"plain"))
        for tenant, subject in ((GLOBEX, SUBJECT), (ACME, SOMEBODY_ELSE))
    ]

    await stores.vault.destroy(ACME, SUBJECT)

    assert [await stores.vault.open(t, s, "fields", sealed) for t, s, sealed in stored] == [b"plain"] * 2


async def test_values_sealed_at_once_for_a_new_subject_all_open(stores: Stores) -> None:
    values = [b"%d" % n for n in range(50)]

    sealed = await asyncio.gather(*(stores.vault.seal(ACME, SUBJECT, "fields", value) for value in values))

    assert [await stores.vault.open(ACME, SUBJECT, "fields", one) for one in sealed] == values


async def test_destroyed_keys_are_listed_in_their_order_for_their_tenant_alone(stores: Stores) -> None:
    await stores.vault.seal(ACME, SUBJECT, "fields", b"plain")

    await stores.vault.destroy(ACME, SUBJECT)
    await stores.vault.destroy(GLOBEX, SUBJECT)
    await stores.vault.destroy(ACME, SOMEBODY_ELSE)
    await stores.vault.destroy(ACME, SUBJECT)

    assert list(await stores.vault.erased(ACME, after=0, limit=10)) == [SUBJECT, SOMEBODY_ELSE]
    assert list(await stores.vault.erased(GLOBEX, after=0, limit=10)) == [SUBJECT]


async def test_the_list_of_destroyed_keys_goes_on_behind_what_was_seen(stores: Stores) -> None:
    for number in range(5):
        await stores.vault.destroy(ACME, SubjectId(f"customer-{number}"))

    first = await stores.vault.erased(ACME, after=0, limit=3)
    rest = await stores.vault.erased(ACME, after=3, limit=3)

    assert [*first, *rest] == [f"customer-{number}" for number in range(5)]
    assert list(await stores.vault.erased(ACME, after=5, limit=3)) == []


async def test_keys_destroyed_at_once_are_all_listed(stores: Stores) -> None:
    subjects = {SubjectId(f"customer-{number}") for number in range(8)}

    await asyncio.gather(*(stores.vault.destroy(ACME, subject) for subject in subjects))

    assert set(await stores.vault.erased(ACME, after=0, limit=20)) == subjects
