"""Policies over HTTP: the first revision, drafts, errors with their places, publishing, four eyes."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from schemas.people import Role
from schemas.policy_records import StoredText
from streams.policies.compiling import CompiledPolicy
from streams.policies.loading import digest, first_text
from streams.policies.published import PolicyUnavailable, PublishedPolicies
from streams.ports.records import Change, RecordKind
from tests.builders import ACME, GLOBEX
from tests.http.support import FOREIGN, TEST, Front, Response, SignedIn, open_front

PATH = "/v1/policies/transactions"
DRAFT = f"{PATH}/draft"
YAML = {"Content-Type": "application/yaml"}
FOUR_EYES = {"policy_four_eyes": True}


def text(limit: int = 100) -> bytes:
    """A policy of ten lines."""
    return f"""\
policy: transactions
features:
  - {{name: spent_24h, metric: SUM, window: 24h, key: subject_id, field: base_amount}}
checks: []
rules:
  - id: much_in_a_day
    mode: ACTIVE
    when: {{feature: spent_24h, op: GT, value: "{limit}.00"}}
    then: {{decision: HOLD, reason: {{code: POLICY_MUCH, message: "{{spent_24h}} in a day."}}}}
hold: {{expires_after: 12h, on_expiry: BLOCK}}
""".encode()


@pytest.fixture
async def front() -> AsyncIterator[Front]:
    """A front."""
    async with open_front() as opened:
        yield opened


@pytest.fixture
async def lead(front: Front) -> SignedIn:
    """A compliance lead of ACME."""
    return await front.sign_in(Role.COMPLIANCE_LEAD)


async def put(asking: Front | SignedIn, sent: bytes, suffix: str = "/draft") -> Response:
    """Upload a text."""
    method = "PUT" if suffix == "/draft" else "POST"
    return await asking.ask(method, PATH + suffix, data=sent, headers=YAML)


async def publish(asking: Front | SignedIn, **body: Any) -> Response:
    """Publish the draft or a revision."""
    return await asking.ask("POST", f"{PATH}/publish", json=body)


async def actions(lead: SignedIn) -> list[str]:
    """What the audit log says of policies, oldest first."""
    listed = await lead.ask("GET", "/v1/audit?action=policy.")
    return [row["action"] for row in reversed(listed.json["events"])]


async def in_force(front: Front) -> CompiledPolicy:
    """The policy that decides ACME's transactions, as a process just started finds it."""
    return await PublishedPolicies(front.stores.records).current(ACME)


async def test_every_tenant_has_the_first_policy_and_nothing_is_stored_of_it(front: Front) -> None:
    listed = (await front.ask("GET", "/v1/policies")).json

    first = {"revision": 1, "sha256": digest(first_text()), "published_at": None, "published_by": None}
    policy = {"name": "transactions", "published": first, "draft": None, "shadow": None, "proposed_by": None}
    assert listed == {"policies": [policy], "next_cursor": None}
    assert (await front.ask("GET", PATH)).json == policy
    assert (await front.ask("GET", f"{PATH}/revisions")).json == {"revisions": [first], "next_cursor": None}
    shown = await front.ask("GET", f"{PATH}/revisions/1")
    assert shown.json == {**first, "text": first_text().decode()}
    for missing in (DRAFT, f"{PATH}/revisions/2", "/v1/policies/wallets"):
        assert (await front.ask("GET", missing)).code == "NOT_FOUND"
    assert (await in_force(front)).revision == 1
    stored = await front.stores.records.page(
        ACME, RecordKind.POLICY_REVISION, ("policy", "transactions"), limit=9
    )
    assert list(stored) == []


async def test_payments_that_come_at_once_wait_for_one_compilation(front: Front, lead: SignedIn) -> None:
    await put(lead, text())
    await publish(lead)
    policies = PublishedPolicies(front.stores.records)

    found = await asyncio.gather(*(policies.current(ACME) for _ in range(20)))

    assert len({id(policy) for policy in found}) == 1


async def test_a_payment_that_gives_up_ends_no_compilation_of_others(front: Front, lead: SignedIn) -> None:
    await put(lead, text())
    await publish(lead)
    policies = PublishedPolicies(front.stores.records)
    first, second = (asyncio.create_task(policies.current(ACME)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()

    assert (await second).revision == 2
    assert first.cancelled()


async def test_a_published_draft_is_in_force_and_stays_as_uploaded(front: Front, lead: SignedIn) -> None:
    sent = b"\xef\xbb\xbf" + text().replace(b"\n", b"\r\n")
    drafted = await put(lead, sent)
    published = await publish(lead)
    await put(lead, text(200))

    assert (drafted.status, drafted.json["draft"]["sha256"]) == (200, digest(sent))
    assert drafted.json["published"]["revision"] == 1
    shown = published.json["published"]
    assert (published.status, shown["revision"], shown["sha256"]) == (200, 2, digest(sent))
    assert shown["published_by"] == lead.member.reviewer_id
    accept = {"Accept": "application/yaml"}
    uploaded = await lead.ask("GET", f"{PATH}/revisions/2", headers=accept)
    assert (uploaded.body, uploaded.headers["Content-Type"]) == (sent, "application/yaml")
    assert (await lead.ask("GET", DRAFT, headers=accept)).body == text(200)
    assert (await lead.ask("GET", DRAFT)).json["text"] == text(200).decode()
    numbers = [one["revision"] for one in (await lead.ask("GET", f"{PATH}/revisions")).json["revisions"]]
    assert numbers == [2, 1]
    current = await in_force(front)
    assert (current.revision, current.sha256, len(current.features)) == (2, digest(sent), 1)
    assert await actions(lead) == ["policy.drafted", "policy.published", "policy.drafted"]


async def test_a_text_in_force_gets_no_new_number(front: Front, lead: SignedIn) -> None:
    assert (await publish(lead)).code == "NOT_FOUND"
    await put(lead, text())
    first, again = await publish(lead), await publish(lead)
    await put(lead, text())

    assert (first.status, first.json) == (200, again.json)
    assert await actions(lead) == ["policy.drafted", "policy.published"]
    pending = await front.stores.journal.pending_events(9)
    assert [(event.type, event.data.policy, event.data.policy_revision) for event in pending] == [
        ("policy.published", "transactions", 2)
    ]


async def test_an_earlier_revision_is_published_again_under_a_new_number(
    front: Front, lead: SignedIn
) -> None:
    await put(lead, text())
    await publish(lead)

    again = await publish(lead, from_revision=1)

    assert again.json["published"]["revision"] == 3
    assert again.json["published"]["sha256"] == digest(first_text())
    assert (await in_force(front)).revision == 3
    assert (await publish(lead, from_revision=9)).code == "NOT_FOUND"
    assert list((await publish(lead, from_revision="1")).pointers) == ["/from_revision"]


async def test_every_error_has_its_place_and_nothing_changes(front: Front, lead: SignedIn) -> None:
    wrong = text().replace(b"SUM", b"SUMM").replace(b"op: GT", b"op: OVER")

    for suffix in ("/draft", "/validate"):
        response = await put(front, wrong, suffix)

        assert (response.status, response.code) == (422, "POLICY_INVALID")
        places = [(e["rule"], e["pointer"], e["line"], e["column"]) for e in response.json["errors"]]
        assert places == [
            ("METRIC_UNKNOWN", "/features/0/metric", 3, 31),
            ("OP_UNKNOWN", "/rules/0/when/op", 8, 36),
        ]
        assert {e["code"] for e in response.json["errors"]} == {"POLICY_INVALID"}
    assert (await front.ask("GET", PATH)).json["draft"] is None
    assert await actions(lead) == []


async def test_a_text_is_validated_without_being_stored(front: Front) -> None:
    response = await put(front, text(), "/validate")

    assert response.json == {"valid": True, "sha256": digest(text()), "features": 1, "rules": 1}
    assert (await front.ask("GET", PATH)).json["draft"] is None


@pytest.mark.parametrize(
    ("sent", "media_type", "code", "rule"),
    [
        (b"# " + b"x" * 300_000, "application/yaml", "POLICY_INVALID", "SIZE"),
        (b"# " + b"x" * 2_000_000, "application/yaml", "PAYLOAD_TOO_LARGE", None),
        (b"[" * 100_000, "application/json", "POLICY_INVALID", "DEPTH"),
        (b"", "application/yaml", "POLICY_INVALID", "YAML_SYNTAX"),
        (b"\xff\xfe\x00", "application/yaml", "POLICY_INVALID", "YAML_SYNTAX"),
        (text(), "text/plain", "UNSUPPORTED_MEDIA_TYPE", None),
    ],
    ids=lambda value: str(value)[:20],
)
async def test_a_body_that_is_no_policy_is_refused(
    front: Front, sent: bytes, media_type: str, code: str, rule: str | None
) -> None:
    response = await front.ask("PUT", DRAFT, data=sent, headers={"Content-Type": media_type})

    assert response.code == code
    assert [error.get("rule") for error in response.json.get("errors", [])] == ([rule] if rule else [])


async def test_the_longest_policy_is_drafted_and_published(front: Front, lead: SignedIn) -> None:
    longest = text() + b"#" * (256 * 1024 - len(text()))

    assert (await put(lead, longest)).status == 200
    assert (await publish(lead)).json["published"]["revision"] == 2
    assert (await in_force(front)).sha256 == digest(longest)


async def test_with_four_eyes_a_second_member_publishes(front: Front, lead: SignedIn) -> None:
    owner = await front.sign_in()
    assert (await owner.ask("PATCH", "/v1/control/settings", json=FOUR_EYES)).json["policy_four_eyes"] is True
    await put(front, text())

    by_key, proposed, again = await publish(front), await publish(lead), await publish(lead)
    waiting = await in_force(front)
    published = await publish(owner)

    assert (by_key.status, by_key.code) == (403, "API_KEY_NOT_ALLOWED")
    assert (proposed.status, proposed.json["proposed_by"]) == (202, lead.member.reviewer_id)
    assert (again.status, again.code) == (409, "SECOND_REVIEWER_MUST_DIFFER")
    assert waiting.revision == 1
    assert (published.status, published.json["proposed_by"]) == (200, None)
    assert published.json["published"]["published_by"] == owner.member.reviewer_id
    assert await actions(lead) == ["policy.drafted", "policy.proposed", "policy.published"]


async def test_a_proposal_is_for_the_text_that_was_proposed(front: Front, lead: SignedIn) -> None:
    owner = await front.sign_in()
    await owner.ask("PATCH", "/v1/control/settings", json=FOUR_EYES)
    await put(front, text())
    await publish(lead)
    await put(front, text(200))

    response = await publish(owner)

    assert (response.status, response.json["proposed_by"]) == (202, owner.member.reviewer_id)
    assert (await publish(lead)).json["published"]["sha256"] == digest(text(200))


async def test_publishing_at_once_numbers_without_gaps(lead: SignedIn) -> None:
    async def draft_and_publish(number: int) -> None:
        assert (await put(lead, text(number))).status == 200
        assert (await publish(lead)).status == 200

    await asyncio.gather(*(draft_and_publish(number) for number in range(8)))

    first = (await lead.ask("GET", f"{PATH}/revisions?limit=1")).json
    cursor = first["next_cursor"]
    rest = (await lead.ask("GET", f"{PATH}/revisions?limit=100&cursor={cursor}")).json
    numbers = [one["revision"] for one in first["revisions"] + rest["revisions"]]
    assert sorted(numbers, reverse=True) == list(range(len(numbers), 0, -1))
    assert (await lead.ask("GET", PATH)).json["published"]["revision"] == len(numbers)
    assert (await actions(lead)).count("policy.published") == len(numbers) - 1


async def test_another_tenant_sees_and_changes_only_its_own(front: Front, lead: SignedIn) -> None:
    await put(lead, text())
    await publish(lead)

    assert (await front.ask("GET", PATH, FOREIGN)).json["published"]["revision"] == 1
    assert (await front.ask("GET", f"{PATH}/revisions/2", FOREIGN)).code == "NOT_FOUND"
    assert (await front.ask("GET", DRAFT, FOREIGN)).code == "NOT_FOUND"
    assert (await PublishedPolicies(front.stores.records).current(GLOBEX)).revision == 1


async def test_the_policy_in_force_is_compiled_once(front: Front, lead: SignedIn) -> None:
    await put(lead, text())
    await publish(lead)
    published = PublishedPolicies(front.stores.records)

    first, again = await published.current(ACME), await published.current(ACME)
    await publish(lead, from_revision=1)

    assert first is again
    assert (await published.current(ACME)).revision == 3
    assert await published.revision(ACME, 2) is first


async def test_a_revision_that_does_not_load_any_more_is_unavailable(front: Front, lead: SignedIn) -> None:
    """As after an upgrade whose language is narrower: payments wait rather than pass unseen."""
    await put(lead, text())
    await publish(lead)
    record = await front.stores.records.get(ACME, RecordKind.POLICY_REVISION, "transactions.2")
    narrower = StoredText.from_bytes(record.body).model_copy(update={"text": b"policy: transactions"})
    changed = replace(record, version=2, body=narrower.to_bytes())
    await front.stores.journal.commit(Change(ACME, (changed,)))

    with pytest.raises(PolicyUnavailable):
        await in_force(front)


async def test_a_key_works_without_a_person(front: Front) -> None:
    await front.ask("PUT", DRAFT, TEST, data=text(), headers=YAML)

    published = (await front.ask("POST", f"{PATH}/publish", TEST, json={})).json["published"]

    assert published["revision"] == 2
    assert published["published_by"].startswith("key_")
