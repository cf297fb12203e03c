"""A transaction that names somebody: screened against the lists of its mode (G117, G132)."""

import pytest

from tests.http.support import TEST, Front
from tests.http.test_transactions import payment, screen

LISTED = {"kind": "PERSON", "name": "Zoltan Qaraveli", "birth_date": "1970-01-01", "country": "SC"}


async def test_g132_a_payment_to_an_invented_sanctioned_person_is_blocked_with_evidence(
    front: Front,
) -> None:
    answer = await screen(front, "to-the-listed", payment(counterparty=LISTED), TEST)

    assert (answer.status, answer.json["decision"]) == (201, "BLOCK")
    assert answer.json["reasons"][0]["code"] == "SANCTIONS_MATCH"
    check = next(
        one for one in answer.json["checks"] if one["check"] == "SANCTIONS" and one["result"] == "MATCH"
    )
    assert check["target"] == "counterparty"
    assert set(check["list_versions"]) == {"sandbox"}
    (match,) = check["matches"]
    assert (match["entity_id"], match["score"]) == ("sandbox-1", 1.0)
    assert {one["feature"]: one["effect"] for one in match["evidence"]} == {
        "NAME": "SUPPORTS",
        "BIRTH_DATE": "SUPPORTS",
        "COUNTRY": "SUPPORTS",
    }


@pytest.mark.parametrize(
    ("changes", "decision"),
    [
        ({"birth_date": "1990-01-01"}, "REVIEW_REQUIRED"),
        ({"name": "Zoltan Karaveli"}, "BLOCK"),
        ({"name": "Zoltan Somebody"}, "ALLOW"),
        ({"kind": "ORGANISATION"}, "ALLOW"),
    ],
)
async def test_g117_what_is_known_beside_the_name_decides(
    front: Front, changes: dict[str, str], decision: str
) -> None:
    answer = await screen(front, "key", payment(counterparty=LISTED | changes), TEST)

    assert answer.json["decision"] == decision


async def test_g132_the_scenarios_name_every_entry_of_the_sandboxs_list(front: Front) -> None:
    """Each named person of a sanctions list stops a payment."""
    listed = (await front.ask("GET", "/v1/sandbox/scenarios")).json["listed"]
    people = [one for one in listed if one.get("kind") == "PERSON" and "SANCTIONS" in one["checks"]]
    decided = [
        await screen(front, one["entity_id"], payment(counterparty={"kind": "PERSON", "name": one["name"]}))
        for one in people
    ]

    assert {one["entity_id"] for one in listed} >= {f"sandbox-{number}" for number in range(1, 7)}
    assert {one["chain"] for one in listed if one.get("address")} == {"BTC", "EVM", "TRON", "SOL", "OTHER"}
    assert len(people) >= 2
    assert {one.json["decision"] for one in decided} == {"REVIEW_REQUIRED"}
