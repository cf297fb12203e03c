"""A tenant whose every free text is markup, turns the reading round, and is as long as it may be."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from html.parser import HTMLParser
from typing import Any, Final

from pydantic import SecretStr
from typing_extensions import override

from schemas.access import Tenant
from schemas.base import rfc3339
from schemas.ids import PLATFORM
from schemas.name_screenings import NameScreening
from schemas.people import Role
from schemas.reasons import ReasonCode
from schemas.tenant_settings import FourEyes
from streams.name_screenings.found_matches import open_case
from streams.name_screenings.records import case_record
from streams.ports.records import Change, Record, RecordKind
from tests.builders import ACME
from tests.http.session_steps import open_page, publish_flow
from tests.http.support import TEST, Front, SignedIn, build_body, now, open_front
from tests.http.test_console import PAGES
from tests.http.test_deliveries import failed
from tests.http.test_name_screenings import LISTED
from tests.http.test_name_screenings import screen as screen_names
from tests.http.test_permissions import TOKEN
from tests.http.test_policies import publish, put
from tests.http.test_review_cases import UNCERTAIN, conclude, set_up
from tests.http.test_tenant_lists import put as put_list
from tests.http.test_transactions import payment, screen

TURNED: Final = "\u202e"
"""Turns the reading round until the end of what isolates it."""

SUBJECT: Final = f"{UNCERTAIN}@hostile"
POLICY: Final = """\
policy: transactions
features: []
checks:
  - {{check: SANCTIONS, targets: [counterparty, subject], match: 0.85, possible: 0.70,
     on_match: REVIEW_REQUIRED, on_possible: REVIEW_REQUIRED, on_error: HOLD}}
rules:
  - id: always
    mode: ACTIVE
    when: {{field: amount, op: GTE, value: "1"}}
    then: {{decision: REVIEW_REQUIRED, reason: {{code: POLICY_ALWAYS, message: '{message}'}}}}
"""


def canary(name: str, most: int) -> str:
    """The text of a field: markup that names it, then as much as it takes, without a place to break."""
    text = f'<img src=x onerror="{name}">{TURNED}'
    return text + "W" * (most - len(text))


APART: Final = frozenset({"bdi", "title", "option", "textarea"})
"""Elements whose text stands by itself; so does that of any with `dir=auto`."""

ENDLESS: Final = frozenset({"br", "circle", "img", "input", "link", "meta", "path", "polygon", "rect", "use"})


class Texts(HTMLParser):
    """What a page shows and what would run on it."""

    def __init__(self, page: str) -> None:
        """Read a page."""
        super().__init__()
        self.said: list[str] = []
        self.running: list[str] = []
        self.turning: list[str] = []
        """Texts that would turn round the reading of what stands beside them."""
        self._open: list[tuple[str, bool]] = []
        self.feed(page)

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open an element, and note what it would run."""
        given = dict(attrs)
        runs = any(name.startswith("on") for name in given) or (tag, given.get("src")) == ("img", "x")
        if runs or (tag == "script" and "src" not in given):
            self.running.append(str(self.get_starttag_text()))
        self.said += [value for value in given.values() if value]
        if tag not in ENDLESS:
            self._open.append((tag, given.get("dir") == "auto" or tag in APART))

    @override
    def handle_endtag(self, tag: str) -> None:
        """Close an element, and what has no end within it."""
        while tag not in ENDLESS and self._open and self._open.pop()[0] != tag:
            pass

    @override
    def handle_data(self, data: str) -> None:
        """Note a text."""
        self.said.append(data)
        if TURNED in data and not any(apart for _, apart in self._open):
            self.turning.append(f"{[tag for tag, _ in self._open[-3:]]} {data[:80]}")


@dataclass
class Hostile:
    """What the tenant has."""

    front: Front
    owner: SignedIn
    paths: list[str] = field(default_factory=list)
    """The pages of one thing each."""
    fields: set[str] = field(default_factory=set)
    """The free texts that some page has to show."""

    def text(self, name: str, most: int) -> str:
        """The text of a field that some page has to show."""
        self.fields.add(name)
        return canary(name, most)


def pages_of(one: Hostile) -> list[str]:
    """Return the pages of the console that show something; lists are those of test data."""
    every = [path for path, (status, _) in PAGES.items() if status == 200 and not path.endswith("export")]
    return [*one.paths, *(f"{path}?livemode=false" for path in every)]


@asynccontextmanager
async def open_hostile() -> AsyncIterator[Hostile]:
    """Serve a front over a tenant whose every text is hostile."""
    async with open_front(operator_token=SecretStr(TOKEN)) as front:
        one = Hostile(front, await front.sign_in())
        await _name_people(one)
        await _open_sessions(one)
        await _review(one)
        await _screen(one)
        await _connect(one)
        yield one


async def _name_people(one: Hostile) -> None:
    """Name the tenant, its members, and its key."""
    tenant = Tenant(tenant_id=ACME, name=one.text("tenant", 120), created_at=now())
    record = Record(PLATFORM, RecordKind.TENANT, ACME, tenant.to_bytes(), tenant.created_at)
    await one.front.stores.journal.commit(Change(PLATFORM, (record,)))
    await one.owner.change_member(name=one.text("member", 120))
    invited = {"name": one.text("invited", 120), "email": "a@acme.example", "role": Role.REVIEWER}
    await _post(one, "/v1/control/members", invited)
    key = {"name": one.text("key", 120), "livemode": False, "expires_at": "never"}
    await _post(one, "/v1/control/api-keys", key)


async def _open_sessions(one: Hostile) -> None:
    """Publish a flow of a document that has a name, and open a session under it."""
    flow_id = await publish_flow(one.owner, name=one.text("flow", 80))
    entry = {"display_name": one.text("document", 120)}
    answer = await one.front.ask(
        "PATCH", "/v1/platform/catalog/NG_PASSPORT", TOKEN, json=entry, headers={"If-Match": "1"}
    )
    assert answer.status == 200, answer.body
    metadata = {canary("metadata key", 64): one.text("metadata", 512)}
    one.fields.add("metadata key")
    again = await publish_flow(one.owner, name="Again")
    session = await open_page(one.front, again, "sim:approved@hostile", metadata=metadata)
    one.paths += [f"/console/flows/{flow_id}", f"/console/sessions/{session.session_id}"]


async def _review(one: Hostile) -> None:
    """Write into a case, conclude another one, open its appeal, and ask for an erasure."""
    await set_up(one.front, four_eyes=FourEyes.NEVER)
    declared = {"extracted_fields": {"surname": one.text("declared", 200), "given_names": "SIM"}}
    made = [(await one.front.submit(build_body(SUBJECT, document=declared))).json for _ in range(2)]
    cases = [f"/v1/control/review-cases/{ver['review_case_id']}" for ver in made]
    await _post(one, f"{cases[0]}/notes", {"text": one.text("note", 4_000)})
    await _post(one, f"{cases[0]}/escalate", {"note": one.text("escalation", 4_000)})
    assert (await conclude(one.owner, cases[1], "REJECT", note=one.text("conclusion", 4_000))).status == 200
    appealed = f"/v1/control/verifications/{made[1]['verification_id']}/appeal"
    appeal = await _post(one, appealed, {"note": one.text("appeal", 4_000)})
    await one.owner.ask("PATCH", "/v1/control/settings", json={"four_eyes": "ALWAYS"})
    await _post(one, f"/v1/subjects/{SUBJECT}/erase", {"reason": one.text("erasure", 500)})
    ids = (*(ver["review_case_id"] for ver in made), appeal["review_case_id"])
    one.paths += [f"/console/review-cases/{case}" for case in ids]
    one.paths += [f"/console/verifications/{made[0]['verification_id']}"]
    one.paths += [f"/console/subjects?subject_id={SUBJECT}&livemode=false"]


async def _screen(one: Hostile) -> None:
    """Screen a payment and a name that are listed, and judge a match."""
    listed = {
        "entity_id": canary("entity", 128), "kind": "PERSON", "names": [one.text("listed", 500)],
        "birth_dates": ["1970"], "countries": ["SC"], "programs": [one.text("program", 256)],
        "addresses": [canary("address", 500)],
    }  # fmt: skip
    one.fields.add("entity")
    assert (await put_list(one.front, "hostile", listed, query="kind=NAMES&check=SANCTIONS")).status == 201
    message = one.text("policy", 200).replace("'", "''")
    await put(one.owner, POLICY.format(message=message).encode())
    assert (await publish(one.owner)).status == 200
    party = {name: one.text(f"party {name}", most) for name, most in PARTY.items()}
    payee = LISTED | party | {"name": listed["names"][0], "birth_date": "1970-01-01"}
    body = payment(
        subject_id="sim:review@paid", reference=one.text("reference", 128), counterparty=payee,
        metadata={"note": one.text("payment", 512)},
        device={"id": one.text("device", 128), "user_agent": one.text("agent", 1_000)},
    )  # fmt: skip
    paid = (await screen(one.front, "one", payment(**(body | {"subject_id": "payer"})), TEST)).json
    query = LISTED | {"ref": one.text("query", 128), "name": listed["names"][0]}
    shown = await screen_names(one.front, query, subject_id=SUBJECT)
    case = open_case(ACME, NameScreening.model_validate(shown), (ReasonCode.SANCTIONS_MATCH,), 2, now())
    await one.front.stores.journal.commit(Change(ACME, (case_record(ACME, case),)))
    judged = {
        "kind": "LIST_MATCH", "subject_id": SUBJECT, "list": "sandbox", "entity_id": "sandbox-1",
        "expires_at": rfc3339(now() + timedelta(days=1)), "note": one.text("judgement", 2_000),
        "livemode": False,
    }  # fmt: skip
    await _post(one, "/v1/control/dispositions", judged)
    one.paths += [
        f"/console/transactions/{paid['transaction_id']}",
        f"/console/review-cases/{paid['review_case_id']}",
        f"/console/review-cases/{case.review_case_id}",
    ]


PARTY: Final = {"id": 128, "address": 1_000, "phone": 64, "account": 128}


async def _connect(one: Hostile) -> None:
    """Register an endpoint that answered at length."""
    hook = {
        "url": f"https://hooks.example/{'w' * 1_900}", "event_types": ["*"], "secret": "s" * 32,
        "description": one.text("endpoint", 200),
    }  # fmt: skip
    answer = await one.front.ask("POST", "/v1/webhooks/endpoints", TEST, json=hook)
    assert answer.status == 201, answer.body
    delivery_id = await failed(one.front, answer.json, answer=one.text("answer", 4_000))
    one.paths += [
        f"/console/webhooks/{answer.json['endpoint_id']}",
        f"/console/webhooks/deliveries/{delivery_id}",
    ]


async def _post(one: Hostile, path: str, body: dict[str, Any]) -> Any:
    answer = await one.owner.ask("POST", path, json=body)
    assert answer.status in {200, 201, 202}, (path, answer.body)
    return answer.json
