"""Matches with lists in the console: a screening's case, and what a conclusion may judge (G120)."""

import re
from datetime import timedelta
from typing import Any

from pydantic_core import to_json

from app.http.case_matches import found_by_transaction, may_be_judged
from app.web.site import console_language
from schemas.base import rfc3339
from schemas.enums import CheckKind, EvidenceKind
from schemas.ids import EvidenceId, SubjectId, derive_id
from schemas.name_screenings import NameScreening
from schemas.people import Role
from schemas.reasons import ReasonCode
from schemas.screenings import ErrorCause, EvidenceEffect, EvidenceFeature, ScreeningTarget
from schemas.tenant_settings import FourEyes
from schemas.verifications import StoredVerification
from streams.name_screenings.found_matches import open_case
from streams.name_screenings.records import case_record
from streams.ports.records import Change, RecordKind
from streams.ports.screening import ScreeningOptions
from streams.reviews.events import verification_record
from streams.verification.records import refer
from tests.builders import ACME, build_evidence_draft
from tests.http.console import enter
from tests.http.support import SCREENING, TEST, Front, SignedIn, now
from tests.http.test_case_dispositions import CASES, PAYEE, REVIEWED
from tests.http.test_console_case import CANARY, SHOWN_CANARY, doubtful, look
from tests.http.test_dispositions import PATH as DISPOSITIONS
from tests.http.test_name_screenings import LISTED, SUBJECT
from tests.http.test_name_screenings import screen as screen_names
from tests.http.test_policies import publish, put
from tests.http.test_review_cases import conclude, set_up
from tests.http.test_transactions import payment, screen


async def screened(front: Front) -> dict[str, Any]:
    """A case of a screening that found a listed person."""
    shown = await screen_names(
        front, LISTED | {"ref": CANARY}, {"kind": "PERSON", "name": CANARY}, subject_id=SUBJECT
    )
    case = open_case(ACME, NameScreening.model_validate(shown), (ReasonCode.SANCTIONS_MATCH,), 2, now())
    await front.stores.journal.commit(Change(ACME, (case_record(ACME, case),)))
    return {"review_case_id": case.review_case_id, "screening_id": shown["screening_id"]}


def judgeable(page: str) -> list[str]:
    """The values of the boxes that a page offers."""
    return re.findall(r'name="dispositions" value="([^"]+)"', page)


async def test_the_case_of_a_screening_shows_its_matches_and_lets_them_be_judged(front: Front) -> None:
    await set_up(front, four_eyes=FourEyes.NEVER)
    made = await screened(front)
    who = await enter(front, Role.REVIEWER)
    page = await look(who, made)

    assert all(word in page for word in ("Золтан Каравели", "supports the match", made["screening_id"]))
    assert ("<img src=x" in page, SHOWN_CANARY in page) == (False, True)
    assert judgeable(page) == ["sandbox sandbox-1"]
    assert judgeable(await look(await enter(front, Role.AUDITOR), made)) == []

    name, entity = judgeable(page)[0].split(" ")
    until = rfc3339(now() + timedelta(days=30))
    judged = [{"list": name, "entity_id": entity, "expires_at": until}]
    case = f"{CASES}/{made['review_case_id']}"
    assert (await conclude(who, case, dispositions=judged)).status == 200
    (one,) = (await who.ask("GET", DISPOSITIONS)).json["dispositions"]
    assert (one["subject_id"], one["entity_id"]) == (SUBJECT, "sandbox-1")
    after = await look(who, made)
    assert ("Judged to be somebody else" in after, judgeable(after)) == (True, [])


async def test_a_screening_whose_subject_was_erased_still_has_a_case(front: Front) -> None:
    made = await screened(front)
    who = await enter(front, Role.REVIEWER)
    await front.stores.vault.destroy(ACME, SubjectId(SUBJECT))
    page = await look(who, made)

    assert "No match is kept" in page
    assert "Каравели" not in page


async def verified(front: Front) -> dict[str, Any]:
    """A case of a verification whose document names a listed person."""
    made = await doubtful(front)
    target = ScreeningTarget.model_validate(LISTED)
    options = ScreeningOptions()
    answer = await SCREENING(CheckKind.SANCTIONS, target, options, tenant_id=ACME, livemode=False)
    evidence_id = EvidenceId(derive_id("evd", made["verification_id"], "lists"))
    kind, about = EvidenceKind.SCREENING_RESULT, made["verification_id"]
    draft = build_evidence_draft(
        to_json((answer,)), evidence_id=evidence_id, kind=kind, verification_id=about,
        subject_id=made["subject_id"], media_type="application/json",
    )  # fmt: skip
    await front.stores.evidence.put([draft])
    current = await front.stores.records.get(ACME, RecordKind.VERIFICATION, about)
    stored = StoredVerification.from_bytes(current.body)
    every = (*stored.verification.evidence, refer(evidence_id, kind))
    shown = stored.verification.model_copy(update={"evidence": every})
    after = verification_record(current, stored.model_copy(update={"verification": shown}))
    await front.stores.journal.commit(Change(ACME, (after,)))
    return made


async def test_the_case_of_a_verification_shows_its_matches_and_lets_them_be_judged(front: Front) -> None:
    await set_up(front, four_eyes=FourEyes.NEVER)
    made = await verified(front)
    case = f"{CASES}/{made['review_case_id']}"
    who = await enter(front, Role.REVIEWER)
    page = await look(who, made)

    assert all(word in page for word in ("Золтан Каравели", "supports the match"))
    assert judgeable(page) == ["sandbox sandbox-1"]
    for role in (Role.AUDITOR, Role.ADMIN):
        seen = await look(await enter(front, role), made)
        assert (judgeable(seen), "Золтан Каравели" in seen) == ([], role is Role.ADMIN)

    until = rfc3339(now() + timedelta(days=30))
    judged = [{"list": "sandbox", "entity_id": "sandbox-1", "expires_at": until}]
    assert (await conclude(who, case, dispositions=judged)).status == 200
    (one,) = (await who.ask("GET", DISPOSITIONS)).json["dispositions"]
    assert (one["subject_id"], one["entity_id"]) == (made["subject_id"], "sandbox-1")
    after = await look(who, made)
    assert ("Judged to be somebody else" in after, judgeable(after)) == (True, [])


async def test_a_verification_whose_subject_was_erased_still_has_a_case(front: Front) -> None:
    made = await verified(front)
    who = await enter(front, Role.REVIEWER)
    await front.stores.vault.destroy(ACME, SubjectId(made["subject_id"]))

    assert "Каравели" not in await look(who, made)


async def matched(front: Front, who: SignedIn, **parties: Any) -> dict[str, Any]:
    """A transaction with a match, under a policy that asks a person."""
    await put(who, REVIEWED)
    assert (await publish(who)).status == 200
    made: dict[str, Any] = (await screen(front, "one", payment(**parties), TEST)).json
    return made


async def test_a_transactions_matches_are_judged_where_the_party_has_an_id(front: Front) -> None:
    who = await enter(front)
    made = await matched(front, who, counterparty=PAYEE)
    nameless = {name: value for name, value in PAYEE.items() if name != "id"}
    other = (await screen(front, "two", payment(counterparty=nameless), TEST)).json
    pages = [await look(who, one) for one in (made, other)]

    assert [judgeable(page) for page in pages] == [["sandbox sandbox-1"], []]
    assert ["would not be known again" in page for page in pages] == [False, True]
    assert all("Золтан Каравели" in page for page in pages)


def test_an_entry_that_also_matches_somebody_without_an_id_is_not_offered() -> None:
    match = {"list": "us", "entity_id": "1", "name": "A", "score": 0.9}
    check = {"check": "SANCTIONS", "result": "MATCH", "matches": [match]}
    both = {"checks": [check | {"target": "subject"}, check | {"target": "counterparty"}]}
    wallet = {"checks": [check | {"target": "wallet"}]}
    known = both | {"counterparty": {"id": "payee-1"}}

    assert may_be_judged(found_by_transaction(both)) == ()
    assert [one.entity_id for one in may_be_judged(found_by_transaction(known))] == ["1"]
    assert found_by_transaction(wallet) == ()


def test_every_word_of_a_match_has_a_text() -> None:
    families = {"fact": EvidenceFeature, "effect": EvidenceEffect, "cause": ErrorCause, "check": CheckKind}
    wanted = {f"{name}.{one}" for name, every in families.items() for one in every}

    assert wanted - set(console_language().texts) == set()
