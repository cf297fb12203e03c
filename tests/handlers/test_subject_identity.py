"""A policy reads what the verifications of a subject say of it (G112)."""

from datetime import timedelta
from typing import Any, Final

import pytest

from app.adapters.memory.stores import open_memory_stores
from app.adapters.security.crypto import RootKey
from schemas.enums import RiskLevel, VerificationStatus
from schemas.ids import VerificationId, derive_id
from schemas.verifications import PersonalFields
from streams.ports.records import Change, Record, RecordKind
from streams.ports.stores import Stores
from streams.transactions.identity import IDENTITY_FIELDS, Identities
from streams.verification.records import by_subject, fields_label
from tests.builders import ACME, NOW, SUBJECT, build_stored, build_verification

YEAR: Final = timedelta(days=365)


@pytest.fixture
def stores() -> Stores:
    """Nobody was verified yet."""
    return open_memory_stores(RootKey(b"r" * 32))


async def verify(
    stores: Stores, name: str, age: timedelta, country: str | None = None, **changes: Any
) -> None:
    """Store a verification of some time ago, with the country of its document."""
    verification_id = VerificationId(derive_id("ver", name))
    fields = PersonalFields(issuing_country=country).to_bytes()
    sealed = await stores.vault.seal(ACME, SUBJECT, fields_label(verification_id), fields)
    verification = build_verification(verification_id=verification_id, created_at=NOW - age, **changes)
    stored = build_stored(verification=verification, sealed_fields=sealed)
    record = Record(
        ACME, RecordKind.VERIFICATION, verification_id, stored.to_bytes(), NOW - age,
        indexes=(by_subject(True, SUBJECT),),
    )  # fmt: skip
    await stores.journal.commit(Change(ACME, (record,)))


async def test_of_a_subject_without_a_verification_nothing_is_known(stores: Stores) -> None:
    await verify(stores, "of another mode", YEAR)

    assert await Identities(stores).read(ACME, SUBJECT, NOW, livemode=False) == dict.fromkeys(IDENTITY_FIELDS)


async def test_the_latest_verification_gives_status_and_the_latest_approved_one_the_country(
    stores: Stores,
) -> None:
    await verify(stores, "first", YEAR, "GB")
    await verify(stores, "second", YEAR / 2, "NG")
    rejected = {"status": VerificationStatus.REJECTED, "risk_level": RiskLevel.HIGH}
    await verify(stores, "third", timedelta(hours=1), "FR", **rejected)

    assert await Identities(stores).read(ACME, SUBJECT, NOW, livemode=True) == {
        "subject.verification_status": "REJECTED",
        "subject.verification_risk": "HIGH",
        "subject.verified_country": "NG",
        "subject.age_days": 365,
    }


async def test_the_age_is_that_of_the_first_of_many_verifications(stores: Stores) -> None:
    for number in range(205):
        await verify(stores, f"number {number}", timedelta(days=number))

    fields = await Identities(stores).read(ACME, SUBJECT, NOW, livemode=True)

    assert fields["subject.age_days"] == 204
