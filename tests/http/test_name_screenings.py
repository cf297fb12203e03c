"""`/v1/name-screenings`: screen names, read a screening, list them (G118)."""

from typing import Any, Final

import pytest

from schemas.ids import SubjectId
from schemas.name_screenings import ScreenNames
from schemas.people import Role
from streams.ports.records import RecordKind
from tests.builders import ACME
from tests.http.support import BARE, FOREIGN, LIVE, TEST, Front, Json

PATH: Final = "/v1/name-screenings"
SUBJECT: Final = "customer-17"
LISTED: Final = {"kind": "PERSON", "name": "Zoltan Karaveli", "birth_date": "1970", "country": "SC"}
CLEAN: Final = {"kind": "ORGANISATION", "name": "Harbour Bakery Ltd"}
POLITICIAN: Final = {"kind": "PERSON", "name": "Honorata Quillfeather"}


async def screen(front: Front, *queries: Json, key: str = TEST, **more: Any) -> Json:
    """Screen the queries; they are screened."""
    answer = await front.ask("POST", PATH, key, json={"queries": queries, **more})
    assert answer.status == 201, answer.json
    shown: Json = answer.json
    return shown


async def test_each_query_has_its_result_in_order_with_the_evidence(front: Front) -> None:
    shown = await screen(front, LISTED | {"ref": "a"}, CLEAN | {"ref": "b"}, subject_id=SUBJECT)

    assert [(one["ref"], one["result"]) for one in shown["results"]] == [("a", "MATCH"), ("b", "CLEAR")]
    (match,) = shown["results"][0]["matches"]
    assert (match["list"], match["entity_id"], match["name"]) == ("sandbox", "sandbox-1", "Золтан Каравели")
    assert {one["feature"] for one in match["evidence"]} == {"NAME", "BIRTH_DATE", "COUNTRY"}
    assert set(shown["list_versions"]) == {"sandbox"}
    assert (shown["subject_id"], shown["livemode"], shown["monitor"]) == (SUBJECT, False, False)
    read = await front.ask("GET", f"{PATH}/{shown['screening_id']}", TEST)
    assert (read.status, read.json) == (200, shown)


async def test_only_the_checks_asked_for_are_made_and_merged(front: Front) -> None:
    sanctions = await screen(front, POLITICIAN)
    both = await screen(front, POLITICIAN | {"birth_date": "1961-09-30"}, checks=["SANCTIONS", "PEP"])

    assert (sanctions["results"][0]["result"], sanctions["results"][0]["matches"]) == ("CLEAR", [])
    assert both["results"][0]["result"] == "MATCH"
    assert len(both["results"][0]["matches"]) == 1


async def test_what_lacks_a_list_is_an_error_and_never_clear(front: Front) -> None:
    live = await screen(front, LISTED, CLEAN, key=LIVE)
    partly = await screen(front, CLEAN, LISTED, lists=["sandbox", "no_such_list"])

    assert [(one["result"], one["causes"]) for one in live["results"]] == [("ERROR", ["LIST_MISSING"])] * 2
    assert [one["result"] for one in partly["results"]] == ["ERROR", "MATCH"]
    assert partly["results"][1]["causes"] == ["LIST_MISSING"]


async def test_the_threshold_bounds_what_is_reported(front: Front) -> None:
    near = {"kind": "PERSON", "name": "Zoltan Karavelow"}
    loose = await screen(front, near, threshold=0.5)
    strict = await screen(front, near, threshold=1)

    assert loose["results"][0]["result"] == "POSSIBLE"
    assert strict["results"][0]["result"] == "CLEAR"


async def test_a_replayed_key_answers_the_first_screening_and_another_body_is_refused(front: Front) -> None:
    headers, body = {"Idempotency-Key": "one"}, {"queries": [LISTED]}
    first = await front.ask("POST", PATH, TEST, json=body, headers=headers)
    again = await front.ask("POST", PATH, TEST, json=body, headers=headers)
    other = await front.ask("POST", PATH, TEST, json={"queries": [CLEAN]}, headers=headers)

    assert (first.status, again.status, again.headers["Idempotent-Replayed"]) == (201, 200, "true")
    assert again.json == first.json
    assert (other.status, other.json["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")


async def test_screenings_are_listed_by_subject_and_invisible_to_others(front: Front) -> None:
    own = await screen(front, CLEAN, subject_id=SUBJECT)
    await screen(front, CLEAN)
    person = await front.sign_in(Role.AUDITOR)

    listed = (await front.ask("GET", f"{PATH}?subject_id={SUBJECT}", TEST)).json
    assert [one["screening_id"] for one in listed["screenings"]] == [own["screening_id"]]
    assert len((await front.ask("GET", PATH, TEST)).json["screenings"]) == 2
    assert (await person.ask("GET", f"{PATH}/{own['screening_id']}")).status == 200
    for key in (FOREIGN, LIVE):
        assert (await front.ask("GET", f"{PATH}/{own['screening_id']}", key)).status == 404
        assert (await front.ask("GET", PATH, key)).json["screenings"] == []
    assert (await front.ask("POST", PATH, BARE, json={"queries": [CLEAN]})).status == 403


async def test_no_name_is_in_a_topic_or_a_record_and_erasure_leaves_the_results(front: Front) -> None:
    secret = LISTED | {"ref": "reference-of-theirs", "name": "Zoltan Qaraveli"}
    shown = await screen(front, secret, subject_id=SUBJECT)

    record = await front.stores.records.get(ACME, RecordKind.NAME_SCREENING, shown["screening_id"])
    (sent,) = [one for one in front.gateway.asked if isinstance(one, ScreenNames)]
    for written in (record.body, record.first_body, sent.to_bytes()):
        for word in (b"Qaraveli", b"reference-of-theirs", b"1970"):
            assert word not in written
    assert SUBJECT.encode() not in sent.to_bytes()

    await front.stores.vault.destroy(ACME, SubjectId(SUBJECT))
    left = (await front.ask("GET", f"{PATH}/{shown['screening_id']}", TEST)).json
    assert left["results"] == [{"result": "MATCH", "causes": [], "matches": []}]
    refused = await front.ask("POST", PATH, TEST, json={"queries": [LISTED], "subject_id": SUBJECT})
    assert (refused.status, refused.json["errors"][0]["pointer"]) == (422, "/subject_id")


@pytest.mark.parametrize(
    "name",
    [
        "ab " * 666,
        "\U0001f9ff" * 2_000,
        "Zoltan" + "\u0301" * 1_900,
        "Zoltan Qaraveli Золтан محمد 山田 Δημήτρης",
        "the of and al bin",
        "\u202eilevaraQ natloZ",
        ".",
        "a " * 999,
    ],
    ids=["long", "emoji", "marks", "scripts", "stop words", "right to left", "a dot", "letters"],
)
async def test_strange_names_are_answered(front: Front, name: str) -> None:
    shown = await screen(front, {"kind": "PERSON", "name": name}, {"kind": "ORGANISATION", "name": name})

    assert {one["result"] for one in shown["results"]} <= {"CLEAR", "POSSIBLE"}


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/queries"),
        ({"queries": []}, "/queries"),
        ({"queries": [CLEAN] * 101}, "/queries"),
        ({"queries": [{"kind": "PERSON"}]}, "/queries/0/name"),
        ({"queries": [CLEAN | {"name": ""}]}, "/queries/0/name"),
        ({"queries": [CLEAN | {"name": "x" * 2_001}]}, "/queries/0/name"),
        ({"queries": [CLEAN | {"name": "a\x00b"}]}, "/queries/0/name"),
        ({"queries": [CLEAN | {"kind": "ROBOT"}]}, "/queries/0/kind"),
        ({"queries": [CLEAN, CLEAN | {"birth_date": "1970-02-30"}]}, "/queries/1/birth_date"),
        ({"queries": [CLEAN | {"country": "ZZ"}]}, "/queries/0/country"),
        ({"queries": [CLEAN | {"unknown": 1}]}, "/queries/0/unknown"),
        ({"queries": [CLEAN], "checks": ["FACE_MATCH"]}, "/checks/0"),
        ({"queries": [CLEAN], "checks": []}, "/checks"),
        ({"queries": [CLEAN], "lists": ["Not A List"]}, "/lists/0"),
        ({"queries": [CLEAN], "threshold": 0.4}, "/threshold"),
        ({"queries": [CLEAN], "threshold": "0.7"}, "/threshold"),
        ({"queries": [CLEAN], "limit": 51}, "/limit"),
        ({"queries": [CLEAN], "limit": True}, "/limit"),
        ({"queries": [CLEAN], "monitor": True}, "/monitor"),
        ({"queries": [CLEAN], "monitor": "yes", "subject_id": SUBJECT}, "/monitor"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_bad_body_is_refused_at_its_place(front: Front, body: Json, pointer: str) -> None:
    answer = await front.ask("POST", PATH, TEST, json=body)

    assert answer.status == 422, answer.json
    assert pointer in {one["pointer"] for one in answer.json["errors"]}
    assert not front.gateway.asked
