"""Every field of every body about money, names, wallets, lists and policies is refused at its place.

Each field is taken away, null, of another type, too long, and each object has one more; the last three are
wrong whatever the field is. What is taken away or null may be optional.
"""

import copy
import itertools
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final, NamedTuple

import pytest

from app.http.bodies import pointer_to
from schemas.base import rfc3339
from tests.http.support import Front, Response, SignedIn, now
from tests.http.test_transactions import payment

Place = tuple[str | int, ...]

TOO_LONG: Final = "x" * 100_000
UNKNOWN: Final = "colour"
MAPS: Final = frozenset({"metadata"})
"""Whose keys are the tenant's own."""

PARTY: Final = {
    "id": "party-1",
    "kind": "PERSON",
    "name": "Ada Okafor",
    "birth_date": "1970-05-04",
    "country": "NG",
    "address": "1 Broad Street, Lagos",
    "email": "ada@example.com",
    "phone": "+2348031234567",
    "account": "NG1",
}
ADDRESS: Final = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
WALLET: Final = {"chain": "EVM", "address": ADDRESS, "role": "DESTINATION"}
PAYMENT: Final = payment(
    type="STREAM_TICK",
    base_amount={"value": "16.50", "currency": "USD"},
    reference="order-1",
    counterparty=PARTY | {"wallet": ADDRESS},
    subject=PARTY,
    wallet=WALLET | {"tx_hash": "ab" * 32},
    stream={"stream_id": "s-1", "sequence": 1, "started_at": rfc3339(now()), "rate_per_minute": "1.00"},
    device={"id": "device-1", "ip": "192.0.2.1", "user_agent": "Mozilla/5.0"},
    metadata={"shop": "A", "items": 3, "gift": True},
)
QUERY: Final = {
    "ref": "1",
    "kind": "PERSON",
    "name": "Ada Okafor",
    "birth_date": "1970",
    "country": "NG",
    "gender": "F",
    "identifiers": [{"type": "passport", "value": "A1"}],
    "address": "1 Broad Street, Lagos",
}
ENTRY: Final = {
    "entity_id": "p-1",
    "kind": "PERSON",
    "names": ["Wenceslas Qadoori"],
    "weak_names": ["Wen"],
    "birth_dates": ["1970"],
    "countries": ["NG"],
    "gender": "M",
    "identifiers": [{"type": "passport", "value": "A1"}],
    "addresses": ["1 Broad Street, Lagos"],
    "wallets": [ADDRESS],
    "programs": ["SDGT"],
    "url": "https://example.com/p-1",
    "note": "met in person",
}


class Route(NamedTuple):
    """A route with a body that it takes."""

    method: str
    path: str
    body: dict[str, Any]
    by_person: bool = False


SPAN: Final = {"from": rfc3339(now() - timedelta(days=1)), "to": rfc3339(now())}
ENDS: Final = rfc3339(now() + timedelta(days=30))
POLICIES: Final = "/v1/policies/transactions"
ROUTES: Final = (
    Route("POST", "/v1/transactions", PAYMENT),
    Route("POST", "/v1/transactions/history", {"transactions": [PAYMENT | {"outcome": "GO"}]}),
    Route(
        "POST",
        "/v1/name-screenings",
        {
            "queries": [QUERY], "checks": ["SANCTIONS", "PEP"], "lists": ["sandbox"], "threshold": 0.8,
            "limit": 5, "subject_id": "user-1", "monitor": False,
        },
    ),
    Route(
        "POST",
        "/v1/wallet-assessments",
        {"address": ADDRESS, "chain": "EVM", "subject_id": "user-1", "direction": "INBOUND",
         "asset": "ETH"},
    ),
    Route("POST", "/v1/wallet-assessments/batch", {"assessments": [{"address": ADDRESS}]}),
    Route(
        "POST",
        "/v1/control/dispositions",
        {"kind": "LIST_MATCH", "subject_id": "user-1", "entity_id": "sandbox-1", "list": "sandbox",
         "expires_at": ENDS, "note": "Seen in person.", "livemode": False},
        by_person=True,
    ),
    Route("POST", "/v1/control/subjects/user-1/reinstate", {"note": "Seen.", "livemode": False}, True),
    Route("PUT", "/v1/lists/mine?kind=NAMES", {"entries": [ENTRY]}),
    Route("PATCH", "/v1/lists/mine", {"add": [ENTRY | {"entity_id": "p-2"}], "remove": ["p-3"]}),
    Route("PUT", f"{POLICIES}/shadow", {"revision": 1}),
    Route("POST", f"{POLICIES}/backtests", {"revision": 1, "subject_id": "user-1"} | SPAN),
    Route("POST", f"{POLICIES}/publish", {"from_revision": 1}),
)  # fmt: skip


def places(value: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Yield every value of a body with its place."""
    if place:
        yield place, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*place, key))


def with_value(body: dict[str, Any], place: Place, value: Any) -> dict[str, Any]:
    """Return the body with another value at a place; `...` takes it away."""
    changed = copy.deepcopy(body)
    holder: Any = changed
    for key in place[:-1]:
        holder = holder[key]
    if value is ...:
        del holder[place[-1]]
    else:
        holder[place[-1]] = value
    return changed


def of_another_type(value: Any) -> Any:
    """Return what is never right where the value is; a text looks like the number it stands for."""
    match value:
        case str():
            return 7
        case bool():
            return "true"
        case int() | float():
            return str(value)
        case _:
            return "a text"


def wrong_bodies(body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], Place]]:
    """Yield what is wrong, a body with it, and the place of it."""
    for place, value in places(body):
        free = MAPS.intersection(place)
        if not free or place[-1] in MAPS:
            yield "another type", with_value(body, place, of_another_type(value)), place
        if isinstance(value, str):
            yield "too long", with_value(body, place, TOO_LONG), place
        if isinstance(value, dict) and not free:
            yield "unknown", with_value(body, (*place, UNKNOWN), 1), (*place, UNKNOWN)
        elif not isinstance(value, dict):
            yield "an object", with_value(body, place, {UNKNOWN: 1}), place
    yield "unknown", body | {UNKNOWN: 1}, (UNKNOWN,)


def lacking_bodies(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a body without each of its fields, and with null for it."""
    for place, _ in places(body):
        yield with_value(body, place, None)
        yield with_value(body, place, ...)


NUMBERS: Final = itertools.count()


async def send(front: Front, person: SignedIn, route: Route, body: dict[str, Any]) -> Response:
    """Send a body under a key of its own."""
    ask = person.ask if route.by_person else front.ask
    headers = {"Idempotency-Key": f"body-{next(NUMBERS)}"}
    return await ask(route.method, route.path, json=body, headers=headers)


async def furnish(front: Front) -> SignedIn:
    """Make the list that is changed, and return a person."""
    made = await front.ask("PUT", "/v1/lists/mine?kind=NAMES", json={"entries": [ENTRY]})
    assert made.status == 201, made.body
    return await front.sign_in()


def problems(answer: Response) -> list[dict[str, Any]]:
    """Return the problems of an answer, those of a row of a history or of a batch among them."""
    shown = answer.json
    rows = [error for row in shown.get("rejected", ()) for error in row["errors"]]
    rows += [
        error for one in shown.get("assessments", ()) for error in one.get("error", {}).get("errors", ())
    ]
    return [*shown.get("errors", ()), *rows]


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
async def test_a_wrong_field_is_refused_at_its_place(front: Front, route: Route) -> None:
    person = await furnish(front)
    found = []
    for fault, body, place in wrong_bodies(route.body):
        answer = await send(front, person, route, body)
        reported = [one.get("pointer") or "" for one in problems(answer)]
        if answer.status >= 500 or not any(at.startswith(pointer_to(place)) for at in reported):
            found.append((fault, pointer_to(place), answer.status, reported or answer.body[:200]))

    assert found == []


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
async def test_a_lacking_field_is_optional_or_named(front: Front, route: Route) -> None:
    person = await furnish(front)
    assert (await send(front, person, route, route.body)).status < 500
    for body in lacking_bodies(route.body):
        answer = await send(front, person, route, body)

        assert answer.status < 500, (body, answer.body)
        assert answer.status != 422 or all(one.get("pointer") is not None for one in problems(answer))
