"""A tenant with two of everything that is listed and one of everything that has an id, and its callers."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from pydantic import SecretStr

from schemas.base import rfc3339
from schemas.people import Role
from streams.policies.loading import first_text
from tests.builders import ACME, GLOBEX
from tests.http.session_steps import Page, open_page, publish_flow
from tests.http.support import TEST, Front, Response, SignedIn, build_body, now, open_front
from tests.http.test_permissions import IDS, TABLE, TOKEN, Row

SUBJECT: Final = "sim:review:FACE_MATCH_UNCERTAIN@canary"
NAME: Final = "Canary"
"""In the name of everything that has one."""


HOOKS: Final = "/v1/webhooks/endpoints"
WALLET: Final = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"


@dataclass
class Furnished:
    """ACME, which has everything, and GLOBEX, which has nothing."""

    front: Front
    owner: SignedIn
    colleague: SignedIn
    foreigner: SignedIn
    """An owner of GLOBEX."""
    page: Page
    """A session of ACME's that waits for its pictures."""
    ids: dict[str, str] = field(default_factory=dict)
    """What ACME has, by path parameter."""

    def path(self, row: Row) -> str:
        """The row's path to what ACME has."""
        reviewers = "control/sessions" in row.path
        session = self.colleague.session.session_id if reviewers else self.page.session_id
        return row.path.format(**{**IDS, **self.ids, "session_id": session})

    def body(self, row: Row) -> dict[str, Any]:
        """A body that the row's route accepts, and the headers it wants."""
        headers = {"If-Match": "1"} if row.method == "PATCH" else {}
        return {} if row.method == "GET" else {"json": self.bodies.get(row.path, {}), "headers": headers}

    @property
    def bodies(self) -> Mapping[str, Any]:
        """Bodies by path, of routes that want more than nothing."""
        case = "/v1/control/review-cases/{review_case_id}"
        note = {"note": "x"}
        return {
            "/v1/verification-flows/{flow_id}": {"name": "y"},
            f"{case}/assign": {"reviewer_id": self.foreigner.member.reviewer_id},
            f"{case}/notes": {"text": "x"},
            f"{case}/escalate": note,
            f"{case}/conclude": {"outcome": "APPROVE", "note": "x"},
            f"{case}/reopen": note,
            "/v1/control/verifications/{verification_id}/appeal": note,
            "/v1/control/members/{reviewer_id}": {"active": False},
            "/v1/subjects/{subject_id}/erase": {"reason": "x"},
            "/v1/control/subjects/{subject_id}/reinstate": {"note": "x", "livemode": False},
            f"{HOOKS}/{{endpoint_id}}": {"description": "x"},
            f"{HOOKS}/{{endpoint_id}}/rotate-secret": {"secret": "r" * 32},
            f"{HOOKS}/{{endpoint_id}}/replay": {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"},
        }

    def named(self) -> list[str]:
        """Every id and name of what ACME has, none of which another tenant may see."""
        members = [self.owner.member.reviewer_id, self.colleague.member.reviewer_id]
        common = {"code", "revision", "name"}
        own = [value for name, value in self.ids.items() if name not in common]
        return [*own, *members, self.colleague.session.session_id, self.page.session_id, NAME, "canary", ACME]

    def stored(self) -> dict[object, object]:
        """All that is kept for ACME and about its members' sessions: records by key, and audit rows."""
        shelves = self.front.shelves
        own: dict[object, object] = {
            key: (one.body, one.indexes) for key, one in shelves.records.items() if ACME in repr(key)
        }
        return {**own, "audit": tuple(shelves.audit.get(ACME, {})), "evidence": tuple(shelves.evidence)}

    async def ask_as_operator(self, row: Row) -> Response:
        """Ask with the operator's token."""
        return await self.front.ask(row.method, self.path(row), TOKEN, **self.body(row))


BY_NAME: Final = "/v1/policies"
"""Policies, but not their backtests, and lists have names: every tenant has its own under the same path."""


def has_id(row: Row) -> bool:
    """Tell a route that leads to one thing a tenant has."""
    return (
        "{" in row.path.removeprefix(f"{BY_NAME}/{{name}}")
        and not row.path.startswith("/v1/lists")
        and not (row.path.startswith(BY_NAME) and "{backtest_id}" not in row.path)
        and not {"operator", "anyone"} & row.who.keys()
    )


def lists(row: Row) -> bool:
    """Tell a route that reads without naming one thing."""
    return row.method == "GET" and "{" not in row.path and not {"operator", "anyone"} & row.who.keys()


TENANTS: Final = [row for row in TABLE if not {"operator", "anyone"} & row.who.keys()]
"""Rows of what belongs to tenants."""


async def publish_again(owner: SignedIn, flow_id: str) -> None:
    """Give a flow a second revision."""
    path = f"/v1/verification-flows/{flow_id}"
    headers = {"If-Match": (await owner.ask("GET", path)).headers["ETag"]}
    await owner.ask("PATCH", path, json={"return_url": "https://shop.example/"}, headers=headers)
    assert (await owner.ask("POST", f"{path}/publish")).json["published_revision"] == 2


async def publish_policy(owner: SignedIn) -> str:
    """Give the policy a second revision, which names the canary, a draft, a shadow, and backtests."""
    path, headers = f"{BY_NAME}/transactions", {"Content-Type": "application/yaml"}
    for number in range(2):
        text = first_text().replace(b"description: ", f"description: {NAME} {number}. ".encode(), 1)
        assert (await owner.ask("PUT", f"{path}/draft", data=text, headers=headers)).status == 200
        assert number or (await owner.ask("POST", f"{path}/publish", json={})).status == 200
    assert (await owner.ask("PUT", f"{path}/shadow", json={"draft": True})).status == 200
    whole = {"draft": True, "from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}
    tests = [await owner.ask("POST", f"{path}/backtests", json=whole) for _ in range(2)]
    return str(tests[0].json["backtest_id"])


@asynccontextmanager
async def open_furnished(**settings: Any) -> AsyncIterator[Furnished]:
    """Serve a front over a tenant that has everything and one that has nothing."""
    async with open_front(operator_token=SecretStr(TOKEN), **settings) as front:
        owner, colleague = await front.sign_in(), await front.sign_in(Role.REVIEWER)
        flow_id = await publish_flow(owner, name=NAME)
        await publish_flow(owner, name=NAME)
        await publish_again(owner, flow_id)
        backtest_id = await publish_policy(owner)
        page = await open_page(front, flow_id, "sim:approved@canary")
        await page.consent()
        await open_page(front, flow_id, "sim:approved@canary-2")
        made = [(await front.submit(build_body(f"{SUBJECT}{number}"), TEST)).json for number in range(2)]
        key = {"name": NAME, "livemode": False, "expires_at": "never"}
        keys = [(await owner.ask("POST", "/v1/control/api-keys", json=key)).json for _ in range(2)]
        image = next(one for one in made[0]["evidence"] if one["kind"] == "IMAGE")
        ids = {name: made[0][name] for name in ("verification_id", "decision_id", "review_case_id")}
        ids |= {"flow_id": flow_id, "revision": "1", "code": "NG_NIN_SLIP", "evidence_id": image["id"]}
        hook = {"url": "https://hooks.example/canary", "event_types": ["*"], "secret": "s" * 32}
        hooks = [(await front.ask("POST", HOOKS, TEST, json=hook)).json["endpoint_id"] for _ in range(2)]
        pings = [(await front.ask("POST", f"{HOOKS}/{hooks[0]}/test", TEST)).json for _ in range(2)]
        ids["backtest_id"] = backtest_id
        ids["subject_id"] = "sim:approved@canary"
        ids |= {"endpoint_id": hooks[0], "delivery_id": pings[0]["delivery_id"]}
        ids |= {"reviewer_id": colleague.member.reviewer_id, "key_id": keys[0]["key_id"], "tenant_id": ACME}
        pay = {"type": "PAYMENT", "direction": "OUTBOUND", "amount": {"value": "5", "currency": "EUR"}}
        paid = [
            (
                await front.ask(
                    "POST", "/v1/transactions", TEST, headers={"Idempotency-Key": str(number)},
                    json={**pay, "subject_id": ids["subject_id"], "occurred_at": rfc3339(now())},
                )
            ).json["transaction_id"]
            for number in range(2)
        ]  # fmt: skip
        ids |= {"transaction_id": paid[0], "name": "transactions"}
        wallet = {"address": WALLET, "subject_id": ids["subject_id"]}
        assessed = [await front.ask("POST", "/v1/wallet-assessments", TEST, json=wallet) for _ in range(2)]
        ids["assessment_id"] = assessed[0].json["assessment_id"]
        query = {"queries": [{"kind": "PERSON", "name": NAME}], "subject_id": ids["subject_id"]}
        screened = [await front.ask("POST", "/v1/name-screenings", TEST, json=query) for _ in range(2)]
        ids["screening_id"] = screened[0].json["screening_id"]
        judged = {
            "kind": "LIST_MATCH", "counterparty_id": NAME, "list": "sandbox", "entity_id": "sandbox-1",
            "expires_at": rfc3339(now() + timedelta(days=1)), "note": NAME, "livemode": False,
        }  # fmt: skip
        dispositions = [(await owner.ask("POST", "/v1/control/dispositions", json=judged)) for _ in range(2)]
        ids["disposition_id"] = dispositions[0].json["disposition_id"]
        yield Furnished(front, owner, colleague, await front.sign_in(tenant_id=GLOBEX), page, ids)
