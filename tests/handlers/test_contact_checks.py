"""Contacts of the parties are checked, and a contact that several subjects use is found (G127)."""

from datetime import UTC, datetime, timedelta
from typing import Final

import pytest

from app.adapters.memory.stores import open_memory_stores
from app.adapters.security.crypto import RootKey
from schemas.enums import CheckKind, DecisionOutcome
from schemas.ids import SubjectId
from schemas.policy_documents import Check
from schemas.policy_fields import CheckTarget
from schemas.reasons import ReasonCode
from schemas.transaction_decisions import CheckOutcome, ScreenedTarget, ShownCheck
from schemas.transactions import Party, PartyKind, TransactionRequest
from streams.ports.records import Change
from streams.transactions.checks import CheckContext
from streams.transactions.contact_checks import ContactChecks
from streams.transactions.keyed_hashes import KeyedHashes
from tests.builders import ACME

HASHES: Final = KeyedHashes(b"c" * 32)
NOW: Final = datetime(2026, 6, 1, 12, tzinfo=UTC)
NUMBER: Final = "+2348031234567"


def check(kind: CheckKind, *findings: ReasonCode) -> Check:
    """A check of the subject, of which these findings count; none: all."""
    flag = DecisionOutcome.FLAG
    return Check(kind, (CheckTarget.SUBJECT,), on_match=flag, on_error=flag, findings=findings)


class Desk:
    """Contact checks over a store of their own."""

    def __init__(self) -> None:
        self.stores = open_memory_stores(RootKey(b"r" * 32))
        self.checks = ContactChecks(self.stores.records, HASHES)

    async def use(self, subject: str, party: Party, at: datetime = NOW, *, livemode: bool = True) -> None:
        """Commit a transaction's uses of the contacts of its parties."""
        request = TransactionRequest.model_validate(
            {
                "subject_id": subject,
                "type": "PAYMENT",
                "direction": "OUTBOUND",
                "amount": {"value": "1.00", "currency": "EUR"},
                "occurred_at": at,
                "subject": party.model_dump(exclude_none=True),
            }
        )
        for record in self.checks.uses_of(request, self.context(subject, at, livemode=livemode)):
            await self.stores.journal.commit(Change(ACME, (record,)))

    async def found(
        self, asked: Check, party: Party, at: datetime = NOW, *, livemode: bool = True
    ) -> ShownCheck:
        """Check the subject `me`."""
        context = self.context("me", at, livemode=livemode)
        return await self.checks(asked, ScreenedTarget.SUBJECT, party, context)

    def context(self, subject: str, at: datetime, *, livemode: bool = True) -> CheckContext:
        """A transaction of the subject."""
        key = HASHES.subject_key(ACME, SubjectId(subject), livemode=livemode)
        return CheckContext(ACME, livemode, key, at)


@pytest.fixture
def desk() -> Desk:
    """Nobody has used anything yet."""
    return Desk()


def person(**contacts: str) -> Party:
    """A person with these contacts."""
    return Party(kind=PartyKind.PERSON, **contacts)


async def test_a_contact_without_findings_is_clear(desk: Desk) -> None:
    found = await desk.found(check(CheckKind.PHONE), person(phone=NUMBER, country="NG"))

    assert (found.result, found.findings) == (CheckOutcome.CLEAR, ())


async def test_a_finding_that_the_policy_does_not_count_is_shown_and_decides_nothing(desk: Desk) -> None:
    party = person(email="info@mailinator.com")

    counted = await desk.found(check(CheckKind.EMAIL, ReasonCode.EMAIL_DISPOSABLE), party)
    ignored = await desk.found(check(CheckKind.EMAIL, ReasonCode.EMAIL_SHARED), party)

    assert (counted.result, ignored.result) == (CheckOutcome.MATCH, CheckOutcome.CLEAR)
    assert counted.findings == ignored.findings == (ReasonCode.EMAIL_DISPOSABLE, ReasonCode.EMAIL_ROLE)


@pytest.mark.parametrize("others", [2, 3, 4])
async def test_a_contact_of_three_other_subjects_is_shared(desk: Desk, others: int) -> None:
    for number in range(others):
        await desk.use(f"other-{number}", person(phone="0803 123 4567", country="NG"))

    found = await desk.found(check(CheckKind.PHONE), person(phone=NUMBER))

    assert found.findings == ((ReasonCode.PHONE_SHARED,) if others >= 3 else ())


async def test_the_subjects_own_uses_hide_those_of_others_from_nobody(desk: Desk) -> None:
    for number in range(3):
        await desk.use(f"other-{number}", person(email="a@example.com"), NOW - timedelta(days=89))
    for day in range(89):
        for _ in range(3):
            await desk.use("me", person(email="A+shop@example.com"), NOW - timedelta(days=day))

    found = await desk.found(check(CheckKind.EMAIL), person(email="a@example.com"))

    assert found.findings == (ReasonCode.EMAIL_SHARED,)


async def test_a_use_of_90_days_ago_no_longer_counts(desk: Desk) -> None:
    for number in range(3):
        await desk.use(f"other-{number}", person(phone=NUMBER), NOW - timedelta(days=90))

    found = await desk.found(check(CheckKind.PHONE), person(phone=NUMBER))
    earlier = await desk.found(check(CheckKind.PHONE), person(phone=NUMBER), NOW - timedelta(seconds=1))

    assert (found.findings, earlier.findings) == ((), (ReasonCode.PHONE_SHARED,))


async def test_uses_of_the_other_mode_do_not_count(desk: Desk) -> None:
    for number in range(3):
        await desk.use(f"other-{number}", person(phone=NUMBER), livemode=False)

    assert (await desk.found(check(CheckKind.PHONE), person(phone=NUMBER))).findings == ()


async def test_a_stored_use_names_neither_subject_nor_contact(desk: Desk) -> None:
    request = TransactionRequest.model_validate(
        {
            "subject_id": "amina",
            "type": "PAYMENT",
            "direction": "OUTBOUND",
            "amount": {"value": "1.00", "currency": "EUR"},
            "occurred_at": NOW,
            "subject": {"kind": "PERSON", "phone": NUMBER, "email": "amina@example.com"},
        }
    )

    records = list(desk.checks.uses_of(request, desk.context("amina", NOW)))

    assert len(records) == 2
    assert not any(word in repr(records) for word in ("amina", "8031234567", "example.com"))
