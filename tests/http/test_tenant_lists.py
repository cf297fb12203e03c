"""A tenant's own lists over HTTP: replaced whole, changed, read, deleted, and used by decisions (G116)."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from schemas.access import Tenant
from schemas.base import rfc3339
from schemas.events import EventType
from schemas.ids import PLATFORM
from schemas.people import Role
from schemas.tenant_lists import DISPOSABLE_DOMAINS
from streams.lists import current
from streams.lists.storage import PART_BYTES
from streams.policies.loading import first_text
from streams.ports.records import BY_AGE, Change, Record, RecordKind
from streams.retention.expiry import ListEntryRemoval
from streams.tenants.handler import TENANTS_INDEX
from tests.builders import ACME
from tests.http.support import FOREIGN, LIVE, TEST, Front, Response, now
from tests.http.test_transaction_wallets import OWN
from tests.http.test_transactions import payment, screen

PATH = "/v1/lists"
NDJSON = {"Content-Type": "application/x-ndjson"}
CSV = {"Content-Type": "text/csv"}
PERSON = {"entity_id": "p-1", "kind": "PERSON", "names": ["Wenceslas Qadoori"], "birth_dates": ["1970"]}
PAYEE = {"kind": "PERSON", "name": "Wenceslas Qadoori", "birth_date": "1970-05-05"}


async def put(
    front: Front, name: str, *entries: Any, key: str = TEST, query: str = "kind=NAMES", **more: Any
) -> Response:
    """Replace a list."""
    sent = {"json": {"entries": entries}} | more
    return await front.ask("PUT", f"{PATH}/{name}?{query}", key, **sent)


async def rows(front: Front, name: str, query: str = "", key: str = TEST) -> list[Any]:
    """Every entry of a list, page after page."""
    found, cursor = [], ""
    while True:
        page = (await front.ask("GET", f"{PATH}/{name}/entries?limit=2&{query}{cursor}", key)).json
        found += page["entries"]
        if page["next_cursor"] is None:
            return found
        cursor = f"&cursor={page['next_cursor']}"


async def payment_to(front: Front, key: str, **payee: Any) -> Any:
    """Screen a live payment to somebody."""
    return (await screen(front, key, payment(counterparty=PAYEE | payee), LIVE)).json


async def test_a_listed_payee_is_blocked_from_the_answer_on_and_free_after_the_delete(front: Front) -> None:
    before = await payment_to(front, "order-1")
    made = await put(front, "watched", PERSON)
    listed = await payment_to(front, "order-2")
    replaced = await put(front, "watched", PERSON | {"names": ["Somebody Else"]})
    other = await payment_to(front, "order-3")
    deleted = await front.ask("DELETE", f"{PATH}/watched")
    after = await payment_to(front, "order-4")

    assert (made.status, replaced.status, deleted.status) == (201, 200, 204)
    assert made.headers["Location"] == f"{PATH}/watched"
    assert [one["decision"] for one in (before, listed, other, after)] == ["HOLD", "BLOCK", "ALLOW", "HOLD"]
    check = next(one for one in listed["checks"] if one["target"] == "counterparty")
    assert check["list_versions"] == {"watched": made.json["version"]}
    assert made.json["version"] != replaced.json["version"]
    assert (made.json["owner"], made.json["check"], made.json["stale"]) == ("TENANT", "SANCTIONS", False)
    lead = await front.sign_in(Role.COMPLIANCE_LEAD)
    audited = (await lead.ask("GET", "/v1/audit?action=list.")).json["events"]
    assert [row["action"] for row in audited] == ["list.deleted", "list.updated", "list.updated"]
    events = [
        one for one in await front.stores.journal.pending_events(50) if one.type is EventType.LIST_UPDATED
    ]
    assert [(one.data.list, one.data.list_version) for one in events] == [
        ("watched", made.json["version"]),
        ("watched", replaced.json["version"]),
    ]


async def test_the_same_entries_in_each_form_are_the_same_list(front: Front) -> None:
    entry = PERSON | {"identifiers": [{"type": "passport", "value": "A1"}], "countries": ["NG", "GH"]}
    lines = json.dumps(entry)
    table = (
        "entity_id,kind,names,birth_dates,identifiers,countries\n"
        "p-1,PERSON,Wenceslas Qadoori,1970,passport:A1,NG;GH\n"
    )

    versions = [
        (await put(front, "one", entry)).json["version"],
        (await put(front, "one", json=None, data=f"\n{lines}\n".encode(), headers=NDJSON)).json["version"],
        (await put(front, "one", json=None, data=table.encode(), headers=CSV)).json["version"],
    ]

    assert len(set(versions)) == 1
    assert await rows(front, "one") == [entry]


async def test_entries_are_added_removed_and_found_page_by_page(front: Front) -> None:
    entries = [{"value": f"{number:04d}-{'x' * 200}"} for number in range(PART_BYTES // 120)]
    await put(front, "accounts", *entries, query="kind=VALUES")
    changes = {"add": [{"value": "new", "note": "n"}, {"value": entries[1]["value"], "note": "again"}],
               "remove": [entries[0]["value"], "unknown"]}  # fmt: skip

    patched = await front.ask("PATCH", f"{PATH}/accounts", json=changes)
    again = await front.ask("PATCH", f"{PATH}/accounts", json=changes)

    assert patched.json["entries"] == len(entries)
    assert again.json["version"] == patched.json["version"]
    assert await rows(front, "accounts", "q=NEW") == [{"value": "new", "note": "n"}]
    found = await rows(front, "accounts", "q=000")
    assert [one["value"][:4] for one in found] == [f"{number:04d}" for number in (*range(1, 10), 1000, 2000)]
    assert found[0]["note"] == "again"
    cursor = (await front.ask("GET", f"{PATH}/accounts/entries?limit=1")).json["next_cursor"]
    for wrong in (f"q=x&cursor={cursor}", f"cursor={cursor[:-1]}", "limit=-1", f"q={'x' * 101}"):
        assert (await front.ask("GET", f"{PATH}/accounts/entries?{wrong}")).status in {400, 422}


async def test_rules_read_the_tenants_values_and_a_missing_list_holds_the_money(front: Front) -> None:
    lead = await front.sign_in(Role.COMPLIANCE_LEAD)
    rule = b"""
  - id: on_our_list
    mode: ACTIVE
    when: {field: counterparty.account, op: IN_LIST, value: our_accounts}
    then: {decision: BLOCK, reason: {code: POLICY_LISTED, message: "It is on our list."}}
hold:"""
    start = first_text().index(b"\ntests:")
    text, yaml = first_text()[:start].replace(b"\nhold:", rule, 1), {"Content-Type": "application/yaml"}
    policy = "/v1/policies/transactions"

    async def draft() -> Response:
        return await lead.ask("PUT", f"{policy}/draft", data=text, headers=yaml)

    unknown = await draft()
    await put(
        front,
        "our_accounts",
        {"value": "ACC-1"},
        {"value": "ACC-2", "expires_at": rfc3339(now() - timedelta(seconds=1))},
        query="kind=VALUES",
    )
    drafted = await draft()
    assert drafted.status == 200, drafted.body
    published = await lead.ask("POST", f"{policy}/publish", json={})
    assert published.status == 200, published.body
    decisions = []
    for account in ("ACC-1", "ACC-2", "ACC-3"):
        sent = payment(counterparty={"kind": "PERSON", "account": account})
        decisions.append((await screen(front, account, sent, LIVE)).json["decision"])
    refused = await front.ask("DELETE", f"{PATH}/our_accounts")

    assert (unknown.status, unknown.json["errors"][0]["rule"]) == (422, "LIST_UNKNOWN")
    assert decisions == ["BLOCK", "ALLOW", "ALLOW"]
    assert (refused.status, refused.code) == (409, "LIST_IN_USE")


async def test_a_listed_wallet_counts_in_assessments_of_both_modes_until_it_ends(front: Front) -> None:
    ends = rfc3339(now() + timedelta(days=1))
    entry = {"address": OWN.lower(), "category": "fraud", "entity": "Ring 7", "expires_at": ends}
    past = {"address": "0x" + "1" * 40, "category": "fraud", "expires_at": rfc3339(now())}
    await put(front, "wallets_of_ours", entry, past, query="kind=WALLETS&check=SANCTIONS&category=own")
    answers = [
        (await front.ask("POST", "/v1/wallet-assessments", key, json={"address": address})).json
        for key, address in ((LIVE, OWN), (TEST, OWN), (LIVE, past["address"]))
    ]

    assert [one["decision"] for one in answers] == ["BLOCK", "BLOCK", "ALLOW"]
    assert answers[0]["exposures"][0]["entity_name"] == "Ring 7"
    assert set(answers[0]["list_versions"]) == {"wallets_of_ours"}


async def test_a_tenants_list_of_disposable_domains_replaces_ours(front: Front) -> None:
    async def findings(key: str, email: str) -> Any:
        sent = payment(counterparty={"kind": "PERSON", "email": email})
        checks = (await screen(front, key, sent)).json["checks"]
        return [
            one["findings"] for one in checks if (one["check"], one["target"]) == ("EMAIL", "counterparty")
        ]

    ours = await findings("a", "someone@mailinator.com")
    wrong = await put(front, DISPOSABLE_DOMAINS, PERSON)
    await put(front, DISPOSABLE_DOMAINS, {"value": "Throw-Away.ng"}, query="kind=VALUES")

    assert ours == [["EMAIL_DISPOSABLE"]]
    assert wrong.status == 422
    assert await findings("b", "someone.else@mailinator.com") == [[]]
    assert await findings("c", "someone@box.throw-away.ng") == [["EMAIL_DISPOSABLE"]]


async def test_nothing_of_a_list_is_seen_by_another_tenant(front: Front) -> None:
    await put(front, "watched", PERSON)

    answers = [
        await front.ask("GET", f"{PATH}/watched", FOREIGN),
        await front.ask("GET", f"{PATH}/watched/entries", FOREIGN),
        await front.ask("PATCH", f"{PATH}/watched", FOREIGN, json={"remove": ["p-1"]}),
        await front.ask("DELETE", f"{PATH}/watched", FOREIGN),
    ]

    assert {one.status for one in answers} == {404}
    assert (await front.ask("GET", PATH, FOREIGN)).json == {"lists": [], "next_cursor": None}
    assert [one["name"] for one in (await front.ask("GET", PATH)).json["lists"]] == ["watched"]


ENTRIES: list[tuple[Any, str]] = [
    ({"entity_id": "1", "kind": "PERSON", "names": []}, "/entries/0/names"),
    ({"entity_id": "1", "kind": "PERSON"}, "/entries/0/names"),
    ({"entity_id": "1", "kind": "CAT", "names": ["A"]}, "/entries/0/kind"),
    (PERSON | {"birth_dates": ["1970-13"]}, "/entries/0/birth_dates/0"),
    ({"entity_id": "1", "kind": "PERSON", "names": ["x" * 2_001]}, "/entries/0/names/0"),
    ({"entity_id": "1", "kind": "PERSON", "names": ["A"], "surname": "A"}, "/entries/0/surname"),
    ({"entity_id": 1, "kind": "PERSON", "names": ["A"]}, "/entries/0/entity_id"),
    (None, "/entries/0"),
    ([[]], "/entries/0"),
]  # fmt: skip


@pytest.mark.parametrize(("entry", "pointer"), ENTRIES)
async def test_a_bad_entry_is_named_at_its_place_and_changes_nothing(
    front: Front, entry: Any, pointer: str
) -> None:
    await put(front, "watched", PERSON)

    answer = await put(front, "watched", entry, PERSON)

    assert (answer.status, answer.code) == (422, "LIST_INVALID")
    assert answer.json["errors"][0]["pointer"] == pointer
    assert await rows(front, "watched") == [PERSON]


async def test_a_field_of_a_long_or_odd_name_is_named_as_a_pointer_and_cut(front: Front) -> None:
    name = "a/b~" + "x" * 1_000

    within = await put(front, "watched", PERSON | {name: 1})
    beside = await put(front, "watched", json={"entries": [PERSON], name: 1})

    pointers = [answer.json["errors"][0]["pointer"] for answer in (within, beside)]
    assert [pointer[:17] for pointer in pointers] == ["/entries/0/a~1b~0", "/a~1b~0xxxxxxxxxx"]
    assert all(len(pointer) <= 200 for pointer in pointers)


MANY = b'{"entries": [' + b"[]," * 2_000_001 + b"[]]}"
HOSTILE: list[tuple[bytes, dict[str, str], int]] = [
    (b"<!doctype html><p>Not here.", NDJSON, 422),
    (MANY, {"Content-Type": "application/json"}, 422),
    (b"", {"Content-Type": "application/json"}, 422),
    (b"[" * 100_000, {"Content-Type": "application/json"}, 422),
    (b'{"entries": [{"value": 1' + b"0" * 5_000 + b"}]}", {"Content-Type": "application/json"}, 422),
    (b'{"entries": [{"value": NaN}]}', {"Content-Type": "application/json"}, 422),
    (b'{"value": "\\ud800"}', NDJSON, 422),
    (b'{"value": "a"}\n{"value": "a"}', NDJSON, 422),
    (b'{"value": "a"}\n{"value"', NDJSON, 422),
    (b"\xff\xfe\x00", NDJSON, 422),
    (b'value\n"a', CSV, 201),
    (b"value\na,b\n", CSV, 422),
    (b"value,value\na,b\n", CSV, 201),
    (b'"' + b"x" * 200_000 + b'"', CSV, 422),
    (b"value\n\x00\n", CSV, 201),
    (b"{}", {"Content-Type": "application/xml"}, 415),
    ('{"value": "\u202eabc"}'.encode(), NDJSON, 201),
    (b'{"value": "a", "value": "b"}', NDJSON, 422),
    (b'{"entries": [{"value": "a"}], "entries": []}', {"Content-Type": "application/json"}, 422),
    (b'{"entries": [{"value": "a"}], "colour": 1}', {"Content-Type": "application/json"}, 422),
]


@pytest.mark.parametrize(("body", "headers", "status"), HOSTILE, ids=range(len(HOSTILE)))
async def test_hostile_bodies_are_refused_and_never_an_error_of_ours(
    front: Front, body: bytes, headers: dict[str, str], status: int
) -> None:
    answer = await put(front, "values", query="kind=VALUES", json=None, data=body, headers=headers)

    assert answer.status == status, answer.body


@pytest.mark.parametrize(
    ("name", "query", "status", "code"),
    [
        ("un_sc_sanctions", "kind=NAMES", 409, "LIST_NAME_TAKEN"),
        ("sandbox", "kind=NAMES", 409, "LIST_NAME_TAKEN"),
        ("Mine", "kind=NAMES", 404, "NOT_FOUND"),
        ("mine", "", 422, "FILTER_INVALID"),
        ("mine", "kind=names", 422, "FILTER_INVALID"),
        ("mine", "kind=NAMES&check=EMAIL", 422, "FILTER_INVALID"),
        ("mine", "kind=VALUES&check=PEP", 422, "FILTER_INVALID"),
        ("mine", f"kind=NAMES&category={'x' * 257}", 422, "FILTER_INVALID"),
        ("mine", "kind=NAMES&force=true", 422, "FILTER_INVALID"),
    ],
)
async def test_names_and_forms_that_cannot_be(
    front: Front, name: str, query: str, status: int, code: str
) -> None:
    answer = await put(front, name, PERSON, query=query)

    assert (answer.status, answer.code) == (status, code)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"add": [{"entity_id": "1"}]}, "/add/0/kind"),
        ({"add": [1]}, "/add/0"),
        ({"remove": [""]}, "/remove/0"),
        ({"add": [PERSON] * 600, "remove": ["x"] * 401}, ""),
        ({"add": None}, "/add"),
    ],
)
async def test_a_bad_change_changes_nothing(front: Front, body: Any, pointer: str) -> None:
    await put(front, "watched", PERSON)

    answer = await front.ask("PATCH", f"{PATH}/watched", json=body)

    assert answer.status == 422, answer.body
    assert answer.json["errors"][0]["pointer"] == pointer
    assert (await front.ask("PATCH", f"{PATH}/other", json={})).status == 404


async def test_changes_at_the_same_moment_all_count(front: Front) -> None:
    await put(front, "accounts", query="kind=VALUES")
    changes = [{"add": [{"value": f"v{number}"}]} for number in range(4)]

    answers = await asyncio.gather(
        *(front.ask("PATCH", f"{PATH}/accounts", json=one) for one in changes),
        *(put(front, f"list_{number}", query="kind=VALUES") for number in range(4)),
    )

    assert {one.status for one in answers} == {200, 201}
    assert {one["value"] for one in await rows(front, "accounts")} == {"v0", "v1", "v2", "v3"}
    assert len((await front.ask("GET", PATH)).json["lists"]) == 5


async def test_nobody_is_clear_while_a_list_cannot_be_read(front: Front) -> None:
    await put(front, "watched", PERSON)
    await put(front, "others", PERSON | {"entity_id": "p-2", "names": ["Quite Another"]})
    watched, _ = await front.ports.lists.storage.load(ACME)
    stored = watched.named("watched")
    assert stored is not None
    page = await front.stores.records.page(ACME, RecordKind.LIST_ENTRIES, BY_AGE, limit=9)
    await front.stores.removal.remove([one for one in page if one.id.startswith(stored.place)])

    answer = await payment_to(front, "order-1", name="Nobody Anywhere")
    listed = await front.ask("GET", f"{PATH}/watched/entries")
    patched = await front.ask("PATCH", f"{PATH}/watched", json={})
    replaced = await put(front, "watched", PERSON)

    assert answer["decision"] == "HOLD"
    check = next(one for one in answer["checks"] if one["target"] == "counterparty")
    assert (check["result"], check["findings"], set(check["list_versions"])) == (
        "ERROR",
        ["LIST_MISSING"],
        {"others"},
    )
    assert (listed.code, patched.code) == ("STORE_UNAVAILABLE", "STORE_UNAVAILABLE")
    assert replaced.status == 200
    assert (await payment_to(front, "order-2", name="Nobody Anywhere"))["decision"] == "ALLOW"


async def test_a_question_during_a_long_build_waits_and_then_is_an_error(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    going_on = asyncio.Event()
    build = current.CurrentLists._build_one

    async def slowly(*args: Any) -> None:
        await going_on.wait()
        await build(*args)

    monkeypatch.setattr(current.CurrentLists, "_build_one", slowly)
    monkeypatch.setattr(current, "PATIENCE_S", 0.01)
    await put(front, "watched", PERSON)

    meanwhile = await payment_to(front, "order-1")
    going_on.set()
    monkeypatch.setattr(current, "PATIENCE_S", 60.0)
    after = await payment_to(front, "order-2")

    assert (meanwhile["decision"], after["decision"]) == ("HOLD", "BLOCK")


async def test_entries_that_no_list_names_are_removed_a_day_later(front: Front) -> None:
    for number in range(3):
        await put(front, "watched", PERSON | {"note": str(number)})
    await put(front, "gone", PERSON)
    await front.ask("DELETE", f"{PATH}/gone")

    tenant = Tenant(tenant_id=ACME, name="Acme", created_at=now())
    indexes = (TENANTS_INDEX,)
    record = Record(PLATFORM, RecordKind.TENANT, ACME, tenant.to_bytes(), now(), indexes=indexes)
    await front.stores.journal.commit(Change(PLATFORM, (record,)))

    early = await ListEntryRemoval(front.stores, now).sweep()
    later = await ListEntryRemoval(front.stores, lambda: now() + timedelta(days=2)).sweep()

    assert (early, later) == (0, 3)
    assert await rows(front, "watched") == [PERSON | {"note": "2"}]


async def test_a_listed_persons_name_stands_in_no_record_in_the_clear(front: Front) -> None:
    await put(front, "watched", PERSON)

    page = await front.stores.records.page(ACME, RecordKind.LIST_ENTRIES, BY_AGE, limit=9)
    assert [b"Qadoori" in one.body for one in page] == [False]


async def test_keys_and_members_need_their_rights(front: Front) -> None:
    reviewer = await front.sign_in(Role.REVIEWER)

    assert (await reviewer.ask("GET", PATH)).status == 200
    refused = await reviewer.ask("PUT", f"{PATH}/mine?kind=NAMES", json={"entries": []})
    assert (refused.status, refused.code) == (403, "PERMISSION_DENIED")


async def test_g2_a_key_changes_a_list_once_whatever_became_of_it_since(front: Front) -> None:
    one, two = {"Idempotency-Key": "one"}, {"Idempotency-Key": "two"}
    first = await put(front, "codes", {"value": "A"}, query="kind=VALUES", headers=one)
    changed = await front.ask("PATCH", f"{PATH}/codes", json={"add": [{"value": "B"}]}, headers=two)
    await put(front, "codes", {"value": "C"}, query="kind=VALUES")
    again = await put(front, "codes", {"value": "A"}, query="kind=VALUES", headers=one)
    repeated = await front.ask("PATCH", f"{PATH}/codes", json={"add": [{"value": "B"}]}, headers=two)

    assert (first.status, changed.status) == (201, 200)
    assert [(one.status, one.headers.get("Idempotent-Replayed")) for one in (again, repeated)] == [
        (200, "true")
    ] * 2
    assert [again.body, repeated.body] == [first.body, changed.body]
    assert await rows(front, "codes") == [{"value": "C"}]
    for other in (
        await put(front, "codes", {"value": "Z"}, query="kind=VALUES", headers=one),
        await put(front, "codes", {"value": "A"}, query="kind=VALUES&category=x", headers=one),
        await front.ask("PATCH", f"{PATH}/codes", json={"remove": ["B"]}, headers=two),
    ):
        assert (other.status, other.json["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")
    bad = await put(front, "codes", {"value": "A"}, query="kind=VALUES", headers={"Idempotency-Key": "é"})
    assert bad.json["code"] == "IDEMPOTENCY_KEY_INVALID"
    elsewhere = await put(front, "others", {"value": "A"}, query="kind=VALUES", headers=one)
    assert elsewhere.status == 201


async def test_g2_of_many_requests_with_one_key_one_changes_the_list(front: Front) -> None:
    await put(front, "codes", {"value": "A"}, query="kind=VALUES")
    sent: dict[str, Any] = {"json": {"add": [{"value": "B"}]}, "headers": {"Idempotency-Key": "one"}}
    answers = await asyncio.gather(*(front.ask("PATCH", f"{PATH}/codes", **sent) for _ in range(8)))

    assert {one.body for one in answers} == {answers[0].body}
    assert sum("Idempotent-Replayed" not in one.headers for one in answers) == 1
