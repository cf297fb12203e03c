"""`/v1/control/dispositions`: a match that a person judged to be none no longer counts (G120)."""

from datetime import timedelta
from typing import Any, Final

import pytest

from schemas.base import rfc3339
from schemas.enums import CheckKind
from schemas.ids import PLATFORM, SubjectId
from schemas.people import Role
from schemas.problems import NotFound
from schemas.screenings import ScreeningTarget
from streams.dispositions.records import StoredDispositions
from streams.lists.loaded import LoadedLists
from streams.lists.screening import ListScreening
from streams.ports.records import Change, Record, RecordKind
from streams.ports.screening import ScreeningOptions
from streams.retention.expiry import RecordExpiry
from streams.tenants.handler import TENANTS_INDEX
from tests.builders import ACME, build_tenant
from tests.http.support import HASHES, SCREENING, TEST, Front, Json, SignedIn, now
from tests.http.test_name_screenings import LISTED, SUBJECT, screen
from tests.http.test_transactions import payment
from tests.http.test_transactions import screen as pay

PATH: Final = "/v1/control/dispositions"
NOTE: Final = "Seen in person: another birth date."


def judgement(**changes: Any) -> Json:
    """The listed person is not the subject."""
    return {
        "kind": "LIST_MATCH", "subject_id": SUBJECT, "list": "sandbox", "entity_id": "sandbox-1",
        "expires_at": rfc3339(now() + timedelta(days=30)), "note": NOTE, "livemode": False,
    } | changes  # fmt: skip


async def judged(person: SignedIn, **changes: Any) -> Json:
    """Judge; it is judged."""
    answer = await person.ask("POST", PATH, json=judgement(**changes))
    assert answer.status == 201, answer.json
    shown: Json = answer.json
    return shown


async def test_a_judged_match_is_shown_and_no_longer_counts_until_the_disposition_is_deleted(
    front: Front,
) -> None:
    person = await front.sign_in(Role.REVIEWER)
    before = await screen(front, LISTED, subject_id=SUBJECT)
    made = await judged(person)

    after = await screen(front, LISTED, subject_id=SUBJECT)
    another = await screen(front, LISTED, subject_id="somebody-else")
    assert (before["results"][0]["result"], after["results"][0]["result"]) == ("MATCH", "CLEAR")
    (match,) = after["results"][0]["matches"]
    assert match["suppressed_by"] == made["disposition_id"]
    assert another["results"][0]["result"] == "MATCH"

    for _ in range(2):
        assert (await person.ask("DELETE", f"{PATH}/{made['disposition_id']}")).status == 204
    again = await screen(front, LISTED, subject_id=SUBJECT)
    assert again["results"][0]["result"] == "MATCH"


@pytest.mark.parametrize("target", ["subject", "counterparty"])
async def test_it_holds_for_the_parties_of_transactions(front: Front, target: str) -> None:
    person = await front.sign_in(Role.REVIEWER)
    party = LISTED | {"id": "payee-1", "birth_date": "1970-01-01"}
    asked = payment(**{target: party})
    before = await pay(front, "one", asked, TEST)
    whom = {"subject_id": asked["subject_id"]} if target == "subject" else {"counterparty_id": "payee-1"}
    await judged(person, **({"subject_id": None} | whom))

    after = await pay(front, "two", asked, TEST)
    assert (before.json["decision"], after.json["decision"]) == ("BLOCK", "ALLOW")
    other = payment(counterparty=party | {"id": "payee-2"})
    assert (await pay(front, "three", other, TEST)).json["decision"] == "BLOCK"


async def test_it_ends_at_its_time_and_when_the_entry_changes(front: Front) -> None:
    person = await front.sign_in(Role.REVIEWER)
    await judged(person)
    subject = SubjectId(SUBJECT)

    for later, counts in ((timedelta(days=29), True), (timedelta(days=31), False)):
        known = StoredDispositions(front.stores.records, HASHES, lambda later=later: now() + later)  # type: ignore[misc]
        found = await known.of_subject(ACME, subject, livemode=False)
        assert bool(found) is counts
        assert not await known.of_subject(ACME, subject, livemode=True)

    ((key, suppression),) = (
        await StoredDispositions(front.stores.records, HASHES, now).of_subject(ACME, subject, livemode=False)
    ).items()
    changed = suppression._replace(entry_sha256="0" * 64)
    for one, result in ((suppression, "CLEAR"), (changed, "MATCH")):
        answer = await SCREENING(
            CheckKind.SANCTIONS,
            ScreeningTarget.model_validate(LISTED),
            ScreeningOptions(suppressed={key: one}),
            tenant_id=ACME,
            livemode=False,
        )
        assert answer.result == result


async def test_notes_and_counterparties_are_sealed_and_listed_by_whom_they_are_about(front: Front) -> None:
    person, auditor = await front.sign_in(Role.REVIEWER), await front.sign_in(Role.AUDITOR)
    own = await judged(person)
    other = await judged(person, subject_id=None, counterparty_id="payee-of-theirs")

    for one in (own, other):
        record = await front.stores.records.get(ACME, RecordKind.DISPOSITION, one["disposition_id"])
        for word in (b"birth date", b"payee-of-theirs"):
            assert word not in record.body
    for query, found in (
        (f"?subject_id={SUBJECT}", [own]),
        ("?counterparty_id=payee-of-theirs", [other]),
        ("", [other, own]),
        ("?livemode=true", []),
    ):
        assert (await auditor.ask("GET", f"{PATH}{query}")).json["dispositions"] == found
    await front.stores.vault.destroy(ACME, SubjectId(SUBJECT))
    left = (await auditor.ask("GET", f"{PATH}?subject_id={SUBJECT}")).json["dispositions"]
    assert "note" not in left[0]


async def test_an_ended_disposition_is_removed_after_a_month(front: Front) -> None:
    person = await front.sign_in(Role.REVIEWER)
    made = await judged(person)
    body = build_tenant(tenant_id=ACME).to_bytes()
    tenant = Record(PLATFORM, RecordKind.TENANT, ACME, body, now(), indexes=(TENANTS_INDEX,))
    await front.stores.journal.commit(Change(PLATFORM, (tenant,)))

    async def sweep(days: int) -> int:
        return await RecordExpiry(front.stores, lambda: now() + timedelta(days=days)).sweep()

    await sweep(60)
    stored = await front.stores.records.get(ACME, RecordKind.DISPOSITION, made["disposition_id"])
    assert stored.body
    await sweep(62)
    with pytest.raises(NotFound):
        await front.stores.records.get(ACME, RecordKind.DISPOSITION, made["disposition_id"])


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"kind": "RULE"}, "/kind"),
        ({"subject_id": None}, "/subject_id"),
        ({"counterparty_id": "x"}, "/subject_id"),
        ({"entity_id": "nobody"}, "/entity_id"),
        ({"list": "us_ofac_sdn"}, "/entity_id"),
        ({"livemode": True}, "/entity_id"),
        ({"expires_at": rfc3339(now() - timedelta(days=1))}, "/expires_at"),
        ({"expires_at": rfc3339(now() + timedelta(days=401))}, "/expires_at"),
        ({"expires_at": "tomorrow"}, "/expires_at"),
        ({"note": " "}, "/note"),
        ({"unknown": 1}, "/unknown"),
    ],
)
async def test_a_bad_body_is_refused_at_its_place(front: Front, changes: Json, pointer: str) -> None:
    person = await front.sign_in(Role.REVIEWER)
    answer = await person.ask("POST", PATH, json=judgement(**changes))

    assert answer.status == 422, answer.json
    assert pointer in {one["pointer"] for one in answer.json["errors"]}


async def test_a_key_and_who_may_not_conclude_are_refused(front: Front) -> None:
    auditor = await front.sign_in(Role.AUDITOR)

    assert (await front.ask("POST", PATH, TEST, json=judgement())).status == 403
    assert (await auditor.ask("POST", PATH, json=judgement())).status == 403


async def test_an_entry_of_no_loaded_list_has_no_digest() -> None:
    empty = ListScreening(LoadedLists(), now)

    assert await empty.entry_digest(ACME, "sandbox", "sandbox-1", livemode=False) is None
