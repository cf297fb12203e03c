"""`/v1/control/dispositions`: a match that a person judged to be none no longer counts (G120)."""

from datetime import datetime, timedelta
from typing import Any, Final

import pytest

from schemas.audit import AuditFilter
from schemas.base import rfc3339
from schemas.dispositions import EndDisposition, ScreeningCommand
from schemas.enums import CheckKind
from schemas.ids import PLATFORM, SubjectId
from schemas.people import Role
from schemas.problems import NotFound
from schemas.screenings import ScreeningTarget
from schemas.tenant_settings import FourEyes
from streams.dispositions.ending import ChangeDispositions
from streams.dispositions.records import StoredDispositions
from streams.dispositions.scheduler import DispositionScheduler
from streams.lists.loaded import LoadedLists
from streams.lists.screening import ListScreening
from streams.ports.records import Change, Record, RecordKind
from streams.ports.screening import ScreeningOptions
from streams.retention.expiry import RecordExpiry
from streams.tenants.handler import TENANTS_INDEX
from tests.builders import ACME, build_tenant
from tests.http.support import HASHES, SCREENING, TEST, Front, Json, SignedIn, now
from tests.http.test_backtests import run
from tests.http.test_name_screenings import LISTED, SUBJECT, screen
from tests.http.test_policies import publish, put
from tests.http.test_review_cases import set_up
from tests.http.test_transactions import payment
from tests.http.test_transactions import screen as pay

PATH: Final = "/v1/control/dispositions"
NOTE: Final = "Seen in person: another birth date."
LARGE: Final = b"""\
policy: transactions
features: []
checks: []
rules:
  - id: much
    mode: ACTIVE
    when: {field: amount, op: GTE, value: "50"}
    then: {decision: FLAG, score: 5, reason: {code: POLICY_MUCH, message: much}}
"""


def judgement(**changes: Any) -> Json:
    """The listed person is not the subject."""
    return {
        "kind": "LIST_MATCH", "subject_id": SUBJECT, "list": "sandbox", "entity_id": "sandbox-1",
        "expires_at": rfc3339(now() + timedelta(days=30)), "note": NOTE, "livemode": False,
    } | changes  # fmt: skip


async def judged(person: SignedIn, **changes: Any) -> Json:
    """Judge, and have a second person agree where one must; it counts."""
    answer = await person.ask("POST", PATH, json=judgement(**changes))
    assert answer.status == 201, answer.json
    shown: Json = answer.json
    if shown["status"] == "PROPOSED":
        second = await person.front.sign_in(Role.REVIEWER)
        shown = (await second.ask("POST", f"{PATH}/{shown['disposition_id']}/approve")).json
    assert shown["status"] == "ACTIVE"
    return shown


A_MONTH: Final = rfc3339(now() + timedelta(days=30))
RULE: Final = {"kind": "RULE", "list": None, "entity_id": None, "rule_id": "many_in_15_minutes"}


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
        ({"kind": "ENTITY"}, "/kind"),
        ({"kind": "RULE"}, "/rule_id"),
        ({"kind": "RULE", "rule_id": "x"}, "/list"),
        ({"rule_id": "x"}, "/rule_id"),
        ({"entity_id": None}, "/entity_id"),
        (RULE | {"rule_id": "no_such_rule"}, "/rule_id"),
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


async def test_a_judged_rule_hits_but_no_longer_counts_until_the_rule_changes(front: Front) -> None:
    lead = await front.sign_in()
    await put(lead, LARGE)
    await publish(lead)
    asked = payment(amount={"value": "900", "currency": "EUR"})
    before = await pay(front, "one", asked, TEST)
    made = await judged(lead, **RULE | {"rule_id": "much", "subject_id": asked["subject_id"]})

    after = await pay(front, "two", asked, TEST)
    other = await pay(front, "three", asked | {"subject_id": "another"}, TEST)
    shown = {rule["id"]: rule for rule in after.json["rules"]}["much"]
    assert (before.json["decision"], after.json["decision"], other.json["decision"]) == (
        "FLAG", "ALLOW", "FLAG",
    )  # fmt: skip
    assert (shown["result"], shown["suppressed_by"]) == ("HIT", made["disposition_id"])
    assert after.json["reasons"] == []
    assert all("suppressed_by" not in rule for rule in other.json["rules"])

    tested = await run(front, revision=2)
    assert (tested["result"]["evaluated"], tested["result"]["changed"]) == (3, 0)

    await put(lead, LARGE.replace(b'"50"', b'"51"'))
    await publish(lead)
    assert (await pay(front, "four", asked, TEST)).json["decision"] == "FLAG"


async def test_a_rule_may_be_judged_not_to_concern_a_counterparty(front: Front) -> None:
    lead = await front.sign_in()
    await put(lead, LARGE)
    await publish(lead)
    asked = payment(amount={"value": "900", "currency": "EUR"}, counterparty={"kind": "PERSON", "id": "p-1"})
    about = {"subject_id": None, "counterparty_id": "p-1", "rule_id": "much"}
    made = await judged(lead, **RULE | about)

    assert (await pay(front, "one", asked, TEST)).json["decision"] == "ALLOW"
    assert (await lead.ask("DELETE", f"{PATH}/{made['disposition_id']}")).status == 204
    assert (await pay(front, "two", asked, TEST)).json["decision"] == "FLAG"


async def test_a_match_with_sanctions_counts_until_a_second_person_agrees(front: Front) -> None:
    first, second = await front.sign_in(Role.REVIEWER), await front.sign_in(Role.REVIEWER)
    key = {"Idempotency-Key": "one"}
    proposed = await first.ask("POST", PATH, json=judgement(expires_at=A_MONTH), headers=key)
    approve = f"{PATH}/{proposed.json['disposition_id']}/approve"

    assert (proposed.status, proposed.json["status"]) == (201, "PROPOSED")
    assert (await screen(front, LISTED, subject_id=SUBJECT))["results"][0]["result"] == "MATCH"
    same = await first.ask("POST", approve)
    assert (same.status, same.json["code"]) == (409, "SECOND_REVIEWER_MUST_DIFFER")
    assert (await front.ask("POST", approve, TEST)).status == 403
    agreed = [await second.ask("POST", approve) for _ in range(2)]
    assert [(one.status, one.json["status"]) for one in agreed] == [(200, "ACTIVE")] * 2
    assert agreed[0].json["approved_by"] == second.member.reviewer_id
    assert (await screen(front, LISTED, subject_id=SUBJECT))["results"][0]["result"] == "CLEAR"
    again = await first.ask("POST", PATH, json=judgement(expires_at=A_MONTH), headers=key)
    assert (again.status, again.body) == (200, proposed.body)

    assert (await first.ask("DELETE", approve.removesuffix("/approve"))).status == 204
    assert (await second.ask("POST", approve)).status == 422


@pytest.mark.parametrize(
    ("four_eyes", "changes", "status"),
    [
        (FourEyes.NEVER, {}, "ACTIVE"),
        (FourEyes.OVERTURN, {}, "PROPOSED"),
        (FourEyes.CRITICAL, RULE | {"rule_id": "many_in_15_minutes"}, "ACTIVE"),
        (FourEyes.ALWAYS, RULE | {"rule_id": "many_in_15_minutes"}, "PROPOSED"),
    ],
)
async def test_the_setting_says_whether_a_second_person_must_agree(
    front: Front, four_eyes: FourEyes, changes: Json, status: str
) -> None:
    await set_up(front, four_eyes=four_eyes)
    person = await front.sign_in(Role.REVIEWER)

    made = await person.ask("POST", PATH, json=judgement(**changes))
    assert (made.status, made.json["status"]) == (201, status)


async def test_the_sweep_ends_a_disposition_at_its_time_once(front: Front) -> None:
    person = await front.sign_in(Role.REVIEWER)
    made = await judged(person)
    writer: Any = front.log

    async def ended_after(days: int) -> str:
        def later() -> datetime:
            return now() + timedelta(days=days)

        front.log.records.clear()
        await DispositionScheduler(front.stores.records, writer, later).sweep()
        for sent in front.log.records:
            command = ScreeningCommand.model_validate_json(sent.value or b"").root
            assert isinstance(command, EndDisposition)
            for _ in range(2):
                changes = ChangeDispositions(front.stores.records, front.ports.commit, later)
                await changes.expire(command)
        (one,) = (await person.ask("GET", PATH)).json["dispositions"]
        return f"{one['status']} {len(front.log.records)}"

    assert [await ended_after(days) for days in (29, 31, 31)] == ["ACTIVE 0", "ENDED 1", "ENDED 0"]
    rows = await front.stores.audit_log.page(ACME, AuditFilter(action="disposition.ended"), limit=9)
    assert [(row.actor_type, row.subject_id) for row in rows] == [("SYSTEM", SUBJECT)]
    assert made["disposition_id"] in rows[0].context["changes"]["disposition_id"]


async def test_a_key_and_who_may_not_conclude_are_refused(front: Front) -> None:
    auditor = await front.sign_in(Role.AUDITOR)

    assert (await front.ask("POST", PATH, TEST, json=judgement())).status == 403
    assert (await auditor.ask("POST", PATH, json=judgement())).status == 403


async def test_an_entry_of_no_loaded_list_has_no_digest() -> None:
    empty = ListScreening(LoadedLists(), now)

    assert await empty.entry_digest(ACME, "sandbox", "sandbox-1", livemode=False) is None
