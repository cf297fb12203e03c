"""What a copy of the data folder shows: nobody's name or address, no webhook URL, no network address."""

import hmac
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyotp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.adapters.files.data_dir import DATABASE_FILE
from app.adapters.memory.stores import Shelves, open_memory_stores
from app.adapters.security.at_rest import seal_stores
from app.adapters.security.crypto import RootKey
from app.adapters.security.message_authentication import HmacSha256
from schemas.audit import Actor, AuditAction, AuditEvent, AuditFilter, SealAudit
from schemas.base import rfc3339
from schemas.ids import TenantId, derive_id
from schemas.people import Reviewer
from schemas.sessions import OpenSession
from schemas.topics import Topic
from schemas.verifications import SubmitVerification
from streams.audit.commit import act
from streams.audit.handler import SealChain, verify_chain
from streams.audit.rows import write_row
from streams.ports.errors import Damaged
from streams.ports.records import Change, Record, RecordKind
from streams.ports.stores import Stores
from streams.reviewers.members import load_member, reviewer_record
from tests.builders import ACME, GLOBEX, NOW
from tests.handlers.people_stage import EMAIL, staged
from tests.http.session_steps import open_page, publish_flow
from tests.http.support import build_body, open_front
from tests.journeys.service import Service, running_service, small_request, veristream_json
from tests.webhook_receiver import open_receiver

ROOT: Final = RootKey(bytes(range(32)))
EMAIL_CANARY: Final = "canary.mail"
NAME_CANARY: Final = "Canaryname"
IP_CANARY: Final = "203.0.113.77"
URL_CANARY: Final = "canary-hook"
SUBJECT_CANARY: Final = "canary.subject"
PARTY_CANARY: Final = "canaryparty"
PHONE_CANARY: Final = "+2348031234599"
DEVICE_CANARY: Final = "198.51.100.177"
MONEY_CANARIES: Final = (PARTY_CANARY, PARTY_CANARY.title(), PHONE_CANARY, DEVICE_CANARY)
"""What stands in the personal fields of transactions, screenings and lists."""


@pytest.fixture
def shelves() -> Shelves:
    """What the stores hold, as they hold it."""
    return Shelves()


@pytest.fixture
def stores(shelves: Shelves) -> Stores:
    """Stores that seal at rest."""
    return seal_stores(open_memory_stores(ROOT, shelves), ROOT.derive)


def row_of(number: int, ip: str | None = IP_CANARY) -> AuditEvent:
    """A row of an act from an address."""
    return write_row(
        derive_id("aud", str(number)), AuditAction.REVIEWER_SIGNED_IN, Actor(ip=ip), "usr_1", NOW,
        detail="A reviewer signed in.",
    )  # fmt: skip


async def test_a_member_is_stored_sealed_and_read_in_the_clear(stores: Stores, shelves: Shelves) -> None:
    async with staged(stores) as stage:
        member = await stage.add()
        await stage.sign_in()

        assert (await stage.member(member)).email == EMAIL
        (listed,) = await stores.records.page(ACME, RecordKind.REVIEWER, ("all", "reviewer"), limit=5)
        assert Reviewer.from_bytes(listed.body).email == EMAIL
        assert Reviewer.from_bytes(listed.first_body).open_sessions == ()
    stored = shelves.records[ACME, RecordKind.REVIEWER, member.reviewer_id]
    assert stored.version == 2
    assert b"ada@" not in (stored.body + stored.first_body).lower()


def claim(digest: str, tenant_id: TenantId = ACME, mode: str = "live") -> Record:
    """For whom a picture is kept."""
    body = b'{"subject_id":"' + SUBJECT_CANARY.encode() + b'","evidence_id":"evd_1"}'
    return Record(tenant_id, RecordKind.PICTURE, f"{mode}|{digest}", body, NOW)


async def test_the_digest_of_a_picture_is_stored_as_a_hash_of_its_tenant(
    stores: Stores, shelves: Shelves
) -> None:
    """A digest tells who has the picture that somebody brought it (R2)."""
    digest = "ab" * 32
    for record in (claim(digest), claim(digest, GLOBEX), claim(digest, mode="test")):
        committed = await stores.journal.commit(Change(record.tenant_id, (record,)))
        found = await stores.records.get(record.tenant_id, RecordKind.PICTURE, record.id)
        assert committed.record.id == found.id == record.id
        assert found.body == record.body

    ids = [record_id for _, kind, record_id in shelves.records if kind is RecordKind.PICTURE]
    assert sorted(one.partition("|")[0] for one in ids) == ["live", "live", "test"]
    assert len({one.partition("|")[2] for one in ids}) == 3
    assert not any(digest[:8] in one for one in ids)
    stored = shelves.records[ACME, RecordKind.PICTURE, next(iter(ids))].body
    assert SUBJECT_CANARY.encode() not in stored


async def test_a_claim_that_is_sealed_is_won_once_and_taken_over(stores: Stores) -> None:
    first = await stores.journal.commit(Change(ACME, (claim("cd" * 32),)))
    again = await stores.journal.commit(Change(ACME, (claim("cd" * 32),)))
    later = replace(again.record, version=2, body=b"{}")

    taken = await stores.journal.commit(Change(ACME, (later,)))

    assert (first.won, again.won, taken.won) == (True, False, True)
    assert (await stores.records.get(ACME, RecordKind.PICTURE, later.id)).body == b"{}"


async def test_a_sealed_record_opens_only_in_its_own_place(stores: Stores, shelves: Shelves) -> None:
    async with staged(stores) as stage:
        one, other = await stage.add(), await stage.add("bo@acme.example")
    places = [(ACME, RecordKind.REVIEWER, member.reviewer_id) for member in (one, other)]
    shelves.records[places[0]] = replace(
        shelves.records[places[0]], body=shelves.records[places[1]].body, first_body=b""
    )

    with pytest.raises(Damaged):
        await load_member(stores.records, ACME, one.reviewer_id)


async def test_a_record_in_the_clear_is_refused(stores: Stores, shelves: Shelves) -> None:
    async with staged(stores) as stage:
        member = await stage.add()
    place = (ACME, RecordKind.REVIEWER, member.reviewer_id)
    shelves.records[place] = replace(shelves.records[place], body=member.to_bytes())

    with pytest.raises(Damaged):
        await load_member(stores.records, ACME, member.reviewer_id)


async def test_equal_bodies_of_two_tenants_are_sealed_differently(shelves: Shelves, stores: Stores) -> None:
    async with staged(stores) as stage:
        member = await stage.add()
    twin = replace(reviewer_record(member, 1), tenant_id=GLOBEX)
    await stores.journal.commit(Change(GLOBEX, (twin,)))

    bodies = [
        shelves.records[tenant, RecordKind.REVIEWER, member.reviewer_id].body for tenant in (ACME, GLOBEX)
    ]
    assert bodies[0] != bodies[1]


async def test_a_repeated_change_of_a_sealed_record_is_known_as_the_same(stores: Stores) -> None:
    async with staged(stores) as stage:
        member = await stage.add()
    changed = Change(ACME, (reviewer_record(member.model_copy(update={"name": "Bo"}), 2),))

    first, again = await stores.journal.commit(changed), await stores.journal.commit(changed)

    assert (first.won, again.won) == (True, False)
    assert again.record.body == first.record.body == changed.records[0].body


async def test_addresses_of_audit_rows_are_sealed_and_the_chain_holds(
    stores: Stores, shelves: Shelves
) -> None:
    for number in range(3):
        await stores.journal.commit(act(ACME, row_of(number, None if number == 1 else IP_CANARY)))
    await SealChain(stores.audit_log)(SealAudit(tenant_id=ACME))

    report = await verify_chain(stores.audit_log, ACME)
    rows = await stores.audit_log.page(ACME, AuditFilter(), limit=5)

    assert report.ok
    assert sorted(row.context.get("ip", "") for row in rows) == ["", IP_CANARY, IP_CANARY]
    assert IP_CANARY not in repr(shelves.audit)


@pytest.mark.parametrize("place", ["another row's", "in the clear", "altered"])
async def test_s57_an_exchanged_address_breaks_the_chain(
    stores: Stores, shelves: Shelves, place: str
) -> None:
    for number in range(2):
        await stores.journal.commit(act(ACME, row_of(number, f"192.0.2.{number}")))
    await SealChain(stores.audit_log)(SealAudit(tenant_id=ACME))
    first, second = shelves.audit[ACME].values()
    other = {
        "another row's": second.context["ip"],
        "in the clear": "192.0.2.9",
        "altered": f"{first.context['ip'][:-8]}AAAAAAA=",
    }[place]
    shelves.audit[ACME][first.event_id] = first.model_copy(update={"context": {**first.context, "ip": other}})

    assert not (await verify_chain(stores.audit_log, ACME)).ok


async def test_s56_no_command_carries_a_subject_id_in_the_clear() -> None:
    async with open_front() as front:
        owner = await front.sign_in()
        subject = f"sim:approved@{SUBJECT_CANARY}"
        page = await open_page(front, await publish_flow(owner), subject)
        view = await page.hand_in()
        direct = await front.submit({**build_body(subject)})
        sent = [command for command in front.gateway.asked if hasattr(command, "subject_id")]

        assert (view["status"], direct.status) == ("APPROVED", 201)
        assert [type(command) for command in sent] == [OpenSession, SubmitVerification, SubmitVerification]
        assert [command for command in sent if SUBJECT_CANARY in command.to_bytes().decode()] == []


def files_of(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Every file of the store and of the log; not what the processes said."""
    for path in folder.rglob("*"):
        if path.is_file() and (path.parent != folder or path.suffix != ".log"):
            yield path, path.read_bytes()


def id_of_topic(folder: Path, topic: Topic) -> str:
    """Return the name of the folder in which the broker keeps a topic."""
    with closing(sqlite3.connect(folder / "broker" / "broker.sqlite")) as store:
        (found,) = store.execute("SELECT id FROM topic WHERE name = ?", (topic,)).fetchone()
    return str(found).replace("-", "")


class Use:
    """A reviewer's use of a service, from an address of its own."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.cookie = ""

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Send a request as a browser behind a proxy would."""
        sent = {"Origin": self.service.url, "X-Forwarded-For": IP_CANARY, **headers}
        if self.cookie and "Authorization" not in sent:
            sent["Cookie"] = f"service_session={self.cookie}"
        url = self.service.url + path
        async with self.service.client.request(method, url, json=body, headers=sent) as answer:
            given = answer.cookies.get("service_session")
            self.cookie = self.cookie if given is None else given.value
            return answer.status, await answer.json(content_type=None) if answer.status != 204 else None

    async def sign_in(self, password: str) -> int:
        """Sign in; the status."""
        body = {"email": f"{EMAIL_CANARY}@acme.example", "password": password}
        return (await self.ask("POST", "/v1/control/sessions", body))[0]


async def move_money(use: Use) -> None:
    """Pay, import, screen and list people by every personal field there is."""
    service = use.service
    key = {"Authorization": f"Bearer {service.test_key}"}
    name, address = f"Ada {PARTY_CANARY.title()}", f"1 {PARTY_CANARY} Street, Lagos"
    party = {
        "id": f"party-{PARTY_CANARY}", "kind": "PERSON", "name": name, "country": "NG", "address": address,
        "email": f"{PARTY_CANARY}@example.com", "phone": PHONE_CANARY, "account": f"NG{PARTY_CANARY}",
    }  # fmt: skip
    payment = {
        "subject_id": f"payer-{SUBJECT_CANARY}", "type": "PAYMENT", "direction": "OUTBOUND",
        "amount": {"value": "15.00", "currency": "EUR"}, "occurred_at": rfc3339(datetime.now(UTC)),
        "reference": "order-1", "counterparty": party, "subject": party, "metadata": {"note": PARTY_CANARY},
        "device": {"id": f"device-{PARTY_CANARY}", "ip": DEVICE_CANARY, "user_agent": f"{PARTY_CANARY}/5"},
    }  # fmt: skip
    query = {"kind": "PERSON", "name": name, "address": address}
    entry = {"entity_id": "1", "kind": "PERSON", "names": [name], "note": PARTY_CANARY}
    watched = "/v1/lists/watched?kind=NAMES&check=PEP"
    status, shown = await use.ask("PUT", watched, {"entries": [entry]}, **key, **{"Idempotency-Key": "list"})
    assert status in {200, 201}, shown
    for path, body, expected in (
        ("/v1/transactions", payment, 201),
        ("/v1/transactions/history", {"transactions": [payment]}, 200),
        ("/v1/name-screenings", {"queries": [query], "subject_id": "screened", "monitor": True}, 201),
    ):
        sent = {"Origin": service.url, "X-Forwarded-For": IP_CANARY}
        await service.decide(path, body, f"money-{path}", expected, **sent)


async def use_everything(use: Use) -> None:
    """Do what leaves a trace of a member, an address or an endpoint."""
    service = use.service
    made = await veristream_json(
        service.data_dir, "reviewer", "create", "--tenant", service.tenant_id, "--role", "OWNER",
        "--email", f"{EMAIL_CANARY}@acme.example", "--name", f"{NAME_CANARY} Quill",
    )  # fmt: skip
    assert await use.sign_in("a wrong password") == 401
    assert await use.sign_in(made["password"]) == 201
    _, enrolment = await use.ask("POST", "/v1/control/mfa/totp")
    code = pyotp.TOTP(enrolment["secret"]).now()
    assert (await use.ask("POST", "/v1/control/mfa/totp/confirm", {"code": code}))[0] == 200
    invited = {"email": f"{EMAIL_CANARY}.two@acme.example", "name": f"{NAME_CANARY} Two", "role": "REVIEWER"}
    status, member = await use.ask("POST", "/v1/control/members", invited)
    assert status == 201
    assert (await use.ask("DELETE", f"/v1/control/members/{member['reviewer_id']}"))[0] == 204
    assert (await use.ask("GET", "/v1/control/members"))[0] == 200
    key = {"Authorization": f"Bearer {service.test_key}"}
    async with open_receiver() as receiver:
        endpoint = {
            "url": receiver.url(f"/{URL_CANARY}"),
            "secret": "a secret of the receiver, long enough",
            "event_types": ["verification.completed"],
        }
        status, shown = await use.ask("POST", "/v1/webhooks/endpoints", endpoint, **key)
        assert status == 201, shown
        subject = f"sim:approved@{SUBJECT_CANARY}"
        status, _ = await use.ask("POST", "/v1/verifications", small_request(subject), **key)
        assert status == 201
        status, listed = await use.ask(
            "GET", f"/v1/verifications?subject_id={subject}&status=APPROVED", **key
        )
        assert (status, len(listed["verifications"])) == (200, 1)
        await receiver.until(lambda one: len(one.hits) >= 1)
        path = f"/v1/webhooks/endpoints/{shown['endpoint_id']}"
        assert (await use.ask("PATCH", path, {"url": receiver.url(f"/{URL_CANARY}-2")}, **key))[0] == 200
        assert (await use.ask("DELETE", path, **key))[0] == 204
    status, audit = await use.ask("GET", "/v1/audit?limit=200")
    assert IP_CANARY in {row["context"].get("ip") for row in audit["events"]}


async def test_s60_a_copy_of_the_data_folder_shows_no_people_and_no_receivers(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    given = {"SERVICE_TRUSTED_PROXIES": "127.0.0.0/8", "SERVICE_WEBHOOKS_ALLOW_INSECURE": "true"}
    async with running_service(folder, given, preloaded=True) as service:
        await use_everything(Use(service))
        await move_money(Use(service))
        under_way = dict(files_of(folder))
    left = dict(files_of(folder))

    assert any(path.name.endswith("-wal") for path in under_way)
    for found in (under_way, left):
        assert any(b"reviewer.signed_in" in content for content in found.values())
        for canary in (EMAIL_CANARY, NAME_CANARY, IP_CANARY, URL_CANARY, *MONEY_CANARIES):
            assert [path.name for path, content in found.items() if canary.encode() in content] == []
    said = b"".join(path.read_bytes() for path in folder.glob("*.log"))
    for canary in (EMAIL_CANARY, NAME_CANARY, URL_CANARY, SUBJECT_CANARY, *MONEY_CANARIES):
        assert canary.encode() not in said
    topics = folder / "broker" / "topics"
    result = {path for path, content in under_way.items() if SUBJECT_CANARY.encode() in content}
    named = {path.relative_to(topics).parts[0] for path in result if topics in path.parents}
    assert named == {id_of_topic(folder, Topic.DECISIONS)}
    with closing(sqlite3.connect(folder / DATABASE_FILE)) as store:
        listed = "SELECT count(*) FROM record_places WHERE instr(value, ?) > 0"
        assert store.execute(listed, (SUBJECT_CANARY,)).fetchone() == (0,)


@given(key=st.binary(max_size=64), message=st.binary(max_size=300))
def test_the_code_of_an_index_is_the_hmac_of_the_standard_library(key: bytes, message: bytes) -> None:
    keyed = HmacSha256(key)
    assert [keyed.digest(message) for _ in range(2)] == [hmac.digest(key, message, "sha256")] * 2
