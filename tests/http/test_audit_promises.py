"""The table of audit actions in the description is what the operations really write, no more and no less."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pyotp
from pydantic import SecretStr

from app.http.openapi import WITHOUT_AN_OPERATION
from schemas.audit import AuditAction
from schemas.base import rfc3339
from schemas.people import Role
from streams.policies.loading import first_text
from tests.http import reviewers as at
from tests.http.audited import promised, written_by_operation
from tests.http.reviewers import Office, open_office
from tests.http.session_steps import FLOWS, install_tenant, open_page, publish_flow
from tests.http.support import PATH, TEST, Front, Json, SignedIn, build_body, now
from tests.http.test_members import with_factor
from tests.http.test_permissions import TOKEN
from tests.http.test_platform_lists import published
from tests.http.test_transactions import publish_suspending

ROOT: Final = Path(__file__).parents[2]
CONTROL: Final = "/v1/control"
HOOKS: Final = "/v1/webhooks/endpoints"
UNCERTAIN: Final = "sim:review:FACE_MATCH_UNCERTAIN"
NOTHING: Final = "nothing in this version"


async def test_the_served_table_is_made_from_the_routes(front: Front) -> None:
    document = (await front.ask("GET", "/v1/openapi.json", None)).json
    said = {
        f"{method.upper()} {path}": set(operation["x-audit-actions"])
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if "x-audit-actions" in operation
    }
    table = next(tag["description"] for tag in document["tags"] if tag["name"] == "Audit")

    described = {name: actions for name, actions in promised(front).items() if "/v1/" in name}
    assert said == {name: {str(action) for action in actions} for name, actions in described.items()}
    for operation, actions in said.items():
        for action in actions:
            row = re.search(rf"^\| `{re.escape(action)}` \| (.*) \|$", table, re.MULTILINE)
            assert row is not None
            assert f"`{operation}`" in row[1].split(", ")


async def test_every_action_is_in_the_table_and_written_somewhere(front: Front) -> None:
    by_operations = {action for actions in promised(front).values() for action in actions}
    sources = [path for room in ("app", "streams") for path in (ROOT / room).rglob("*.py")]
    code = "".join(path.read_text() for path in sources if path.name != "openapi.py")
    unwritten = {action for action in AuditAction if f"AuditAction.{action.name}" not in code}

    assert set(AuditAction) - by_operations == set(WITHOUT_AN_OPERATION)
    assert {action for action, when in WITHOUT_AN_OPERATION.items() if when == NOTHING} == unwritten


async def test_every_operation_writes_each_action_it_promises() -> None:
    async with open_office(operator_token=SecretStr(TOKEN)) as office:
        await use_every_operation(office)
        written, said = written_by_operation(office.front), promised(office.front)

    assert written == said


async def use_every_operation(office: Office) -> None:
    """Use every operation that promises a row so that each row it promises is written."""
    front = office.front
    await use_platform(front)
    await use_second_factor(office)
    owner = await front.sign_in()
    flow_id = await use_flows(owner)
    await use_sessions(front, flow_id)
    await use_cases(front, owner, flow_id)
    await use_transactions(front, owner)
    await use_policies(owner)
    await use_members(front, owner)
    await use_keys_and_settings(owner)
    await use_webhooks(front)
    await use_wallets(front)
    await use_lists(front, owner)
    query = {"queries": [{"kind": "PERSON", "name": "Ada Okafor"}]}
    await done(front, "POST", "/v1/name-screenings", json=query)
    judged = {
        "kind": "LIST_MATCH", "counterparty_id": "x", "list": "sandbox", "entity_id": "sandbox-1",
        "expires_at": rfc3339(now() + timedelta(days=1)), "note": "x", "livemode": False,
    }  # fmt: skip
    await did(owner, "PATCH", f"{CONTROL}/settings", json={"four_eyes": "CRITICAL"})
    made = await did(owner, "POST", f"{CONTROL}/dispositions", json=judged)
    await did(await front.sign_in(), "POST", f"{CONTROL}/dispositions/{made['disposition_id']}/approve")
    await did(owner, "DELETE", f"{CONTROL}/dispositions/{made['disposition_id']}")
    await use_erasures(front, owner)


async def use_wallets(front: Front) -> None:
    """One wallet, and one in a batch."""
    wallet = {"address": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"}
    await done(front, "POST", "/v1/wallet-assessments", json=wallet)
    await done(front, "POST", "/v1/wallet-assessments/batch", json={"assessments": [wallet]})


async def use_lists(front: Front, owner: SignedIn) -> None:
    """A list of a tenant from its first entry to its end, and one of the operator's."""
    own = "/v1/lists/accounts"
    await done(front, "PUT", f"{own}?kind=VALUES", json={"entries": [{"value": "NG0001"}]})
    await done(front, "PATCH", own, json={"remove": ["NG0001"]})
    await did(owner, "DELETE", own)
    await done(front, "PUT", "/v1/platform/lists/un_sc_sanctions", TOKEN, data=published(3))


async def use_erasures(front: Front, owner: SignedIn) -> None:
    """An erasure that a second person approves."""
    erase = f"/v1/subjects/{UNCERTAIN}@0/erase"
    await did(owner, "PATCH", f"{CONTROL}/settings", json={"four_eyes": "ALWAYS"})
    await did(owner, "POST", erase, json={"reason": "x"})
    await did(await front.sign_in(), "POST", f"{erase}/approve")


async def done(front: Front, method: str, path: str, key: str | None = TEST, **more: Any) -> Any:
    """Ask, and read what was answered."""
    response = await front.ask(method, path, key, **more)
    assert response.status < 300, (method, path, response.body)
    return response.json if response.body else None


async def did(member: SignedIn, method: str, path: str, **more: Any) -> Any:
    """Let a member ask, and read what was answered."""
    response = await member.ask(method, path, **more)
    assert response.status < 300, (method, path, response.body)
    return (
        response.json
        if response.body and response.headers["Content-Type"].startswith("application/json")
        else None
    )


async def use_platform(front: Front) -> None:
    """What the operator does."""
    catalog = "/v1/platform/catalog"
    tenant = await done(front, "POST", "/v1/platform/tenants", TOKEN, json={"name": "Initech"})
    owner = {"email": "o@initech.example", "name": "O"}
    await done(
        front, "POST", f"/v1/platform/tenants/{tenant['tenant_id']}/owner-invitations", TOKEN, json=owner
    )
    entry: Json = {
        "code": "GH_OTHER_VOTER_CARD", "country": "GH", "country_name": "Ghana", "document_type": "OTHER",
        "display_name": "Voter's card", "extraction_support": "MANUAL",
        "capture": {"document_number_required": False},
    }  # fmt: skip
    one = f"{catalog}/{entry['code']}"
    await done(front, "POST", catalog, TOKEN, json=entry)
    await done(front, "PATCH", one, TOKEN, json={"display_name": "Card"}, headers={"If-Match": "1"})
    await done(front, "POST", f"{one}/disable", TOKEN)
    await done(front, "POST", f"{one}/enable", TOKEN)
    await front.ask("GET", "/v1/platform/audit", TOKEN, headers={"Accept": "text/csv"})


async def use_second_factor(office: Office) -> None:
    """Sign-in, both factors, passwords."""
    member = await office.add(role=Role.OWNER)
    browser = office.browser()
    assert (await browser.sign_in(password="nine green umbrellaz")).status == 401  # noqa: S106 - of nobody
    await browser.sign_in()
    device = pyotp.TOTP((await browser.ask("POST", at.TOTP)).json["secret"])
    assert (await browser.ask("POST", at.CONFIRM, json={"code": "000000"})).status == 401
    office.clock.wait(minutes=5)
    assert (await browser.ask("POST", at.CONFIRM, json={"code": office.code(device)})).status == 200
    assert (await browser.ask("DELETE", at.CURRENT)).status == 204
    await browser.sign_in()
    assert (await browser.ask("POST", at.VERIFY, json={"code": "000000"})).status == 401
    office.clock.wait(minutes=5)
    assert (await browser.verify(device)).status == 200
    assert (await browser.ask("POST", at.RECOVERY, json={"password": at.PASSWORD})).status == 200
    await office.enter()
    sessions = (await browser.ask("GET", at.SESSIONS)).json["sessions"]
    ended = next(one for one in sessions if not one["current"])
    assert (await browser.ask("DELETE", f"{at.SESSIONS}/{ended['session_id']}")).status == 204
    assert (await browser.ask("DELETE", at.TOTP, json={"password": at.PASSWORD})).status == 204
    new = {"current_password": at.PASSWORD, "new_password": "ten blue umbrellas, wet"}
    await browser.enrol()
    assert (await browser.ask("POST", at.CHANGE, json=new)).status == 204
    token = {"token": await office.issue(member), "new_password": "eleven red umbrellas"}
    assert (await browser.ask("POST", at.RESET, json=token)).status == 204


async def use_flows(owner: SignedIn) -> str:
    """A flow through all its moves, and one that stays."""
    flow_id = await publish_flow(owner)
    one = f"{FLOWS}/{flow_id}"
    twin = f"{FLOWS}/{(await did(owner, 'POST', f'{one}/duplicate'))['flow_id']}"
    await did(owner, "POST", f"{twin}/preview")
    tag = (await owner.ask("GET", twin)).headers["ETag"]
    await did(owner, "PATCH", twin, json={"name": "y"}, headers={"If-Match": tag})
    await did(owner, "POST", f"{twin}/archive")
    return flow_id


async def use_sessions(front: Front, flow_id: str) -> None:
    """A session that is handed in and goes to a person, and one that is cancelled."""
    page = await open_page(front, flow_id, UNCERTAIN)
    await page.hand_in()
    other = await open_page(front, flow_id, "sim:approved@2")
    await done(front, "POST", f"/v1/verification-sessions/{other.session_id}/cancel")


async def use_cases(front: Front, owner: SignedIn, flow_id: str) -> None:
    """Cases through all their moves."""
    made = [await done(front, "POST", PATH, json=build_body(f"{UNCERTAIN}@{n}")) for n in range(4)]
    evidence = f"{PATH}/{made[0]['verification_id']}/evidence"
    image = next(one for one in made[0]["evidence"] if one["kind"] == "IMAGE")
    await did(owner, "GET", f"{evidence}/{image['id']}")
    await did(owner, "GET", f"{PATH}/{made[0]['verification_id']}/explanation")
    await did(owner, "POST", f"{PATH}/{made[0]['verification_id']}/reveal-number")
    await install_tenant(owner)
    for page in (f"review-cases/{made[0]['review_case_id']}", f"verifications/{made[0]['verification_id']}"):
        assert (await owner.ask("GET", f"/console/{page}", headers={"Accept": "text/html"})).status == 200
    first, second, third, fourth = (f"{CONTROL}/review-cases/{one['review_case_id']}" for one in made)
    colleague, lead = await front.sign_in(), await front.sign_in(Role.COMPLIANCE_LEAD)
    await did(owner, "POST", f"{CONTROL}/review-cases/claim-next", json={"livemode": False})
    await did(owner, "POST", f"{first}/claim")
    await did(owner, "POST", f"{first}/release")
    await did(owner, "POST", f"{first}/assign", json={"reviewer_id": colleague.member.reviewer_id})
    await did(owner, "POST", f"{first}/notes", json={"text": "x"})
    await did(owner, "POST", f"{second}/escalate", json={"note": "x"})
    approve, reject = {"outcome": "APPROVE", "note": "x"}, {"outcome": "REJECT", "note": "x"}
    await did(owner, "PATCH", f"{CONTROL}/settings", json={"four_eyes": "ALWAYS"})
    await did(owner, "POST", f"{third}/conclude", json=approve)
    await did(colleague, "POST", f"{third}/conclude", json=reject)
    await did(owner, "PATCH", f"{CONTROL}/settings", json={"four_eyes": "NEVER"})
    asked = {"outcome": "REQUEST_INPUT", "note": "x", "flow_id": flow_id}
    await did(owner, "POST", f"{fourth}/conclude", json=asked)
    until = rfc3339(now() + timedelta(days=1))
    match = {"list": "sandbox", "entity_id": "sandbox-1", "expires_at": until}
    await did(lead, "POST", f"{second}/conclude", json={**approve, "dispositions": [match]})
    await did(lead, "POST", f"{second}/reopen", json={"note": "x"})
    settled = await done(front, "POST", PATH, json=build_body("sim:reject:DOCUMENT_EXPIRED"))
    appeal = f"{CONTROL}/verifications/{settled['verification_id']}/appeal"
    await did(owner, "POST", appeal, json={"note": "x"})
    await did(owner, "GET", "/v1/audit", headers={"Accept": "text/csv"})
    await did(owner, "GET", "/console/audit/export")
    await did(owner, "GET", f"/v1/subjects/{settled['subject_id']}/export")


async def use_transactions(front: Front, owner: SignedIn) -> None:
    """A subject suspended twice: a case lifts it once, a member the other time."""
    await publish_suspending(front)
    pay: Json = {
        "subject_id": "user-1", "type": "PAYMENT", "direction": "OUTBOUND", "metadata": {"ask": "SUSPEND"},
        "amount": {"value": "5", "currency": "EUR"}, "occurred_at": rfc3339(now()),
    }  # fmt: skip

    async def suspend(key: str) -> str:
        made = await done(front, "POST", "/v1/transactions", json=pay, headers={"Idempotency-Key": key})
        assert made["decision"] == "SUSPEND"
        return f"{CONTROL}/review-cases/{made['review_case_id']}"

    past: Json = {"transactions": [pay | {"reference": "old", "metadata": {}}]}
    await done(front, "POST", "/v1/transactions/history", json=past, headers={"Idempotency-Key": "old"})
    await did(owner, "POST", f"{await suspend('1')}/conclude", json={"outcome": "APPROVE", "note": "x"})
    await suspend("2")
    lifted = {"note": "x", "livemode": False}
    await did(owner, "POST", f"{CONTROL}/subjects/user-1/reinstate", json=lifted)


async def use_policies(owner: SignedIn) -> None:
    """A text that a second member has to publish too."""
    path, headers = "/v1/policies/transactions", {"Content-Type": "application/yaml"}
    await did(owner, "PATCH", f"{CONTROL}/settings", json={"policy_four_eyes": True})
    await did(owner, "PUT", f"{path}/draft", data=first_text(), headers=headers)
    await did(owner, "POST", f"{path}/publish", json={})
    await did(owner, "PUT", f"{path}/shadow", json={"draft": True})
    await did(owner, "DELETE", f"{path}/shadow")
    whole = {"revision": 1, "from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}
    backtest = await did(owner, "POST", f"{path}/backtests", json=whole)
    await did(owner, "POST", f"{path}/backtests/{backtest['backtest_id']}/cancel")


async def use_members(front: Front, owner: SignedIn) -> None:
    """Members invited, changed and let go; a factor reset by two people."""
    path = f"{CONTROL}/members"
    invited = await did(owner, "POST", path, json={"email": "n@acme.example", "name": "N", "role": "AUDITOR"})
    await did(owner, "DELETE", f"{path}/{invited['reviewer_id']}")
    member = await front.sign_in(Role.REVIEWER)
    one = f"{path}/{member.member.reviewer_id}"
    await did(owner, "PATCH", one, json={"role": "AUDITOR"})
    await did(owner, "PATCH", one, json={"active": False})
    other = await with_factor(await front.sign_in(Role.REVIEWER))
    again = f"{path}/{other.member.reviewer_id}/reset-factor"
    await did(owner, "POST", again)
    await did(await front.sign_in(), "POST", again)
    await did(owner, "PATCH", f"{CONTROL}/preferences", json={"theme": "DARK"})


async def use_keys_and_settings(owner: SignedIn) -> None:
    """A key through all its moves; the settings."""
    path = f"{CONTROL}/api-keys"
    key = await did(owner, "POST", path, json={"name": "x", "livemode": False, "expires_at": "never"})
    await did(owner, "POST", f"{path}/{key['key_id']}/rotate", json={})
    await did(owner, "DELETE", f"{path}/{key['key_id']}")


async def use_webhooks(front: Front) -> None:
    """An endpoint through all its moves, and what was sent to it."""
    body = {"url": "https://hooks.example/x", "event_types": ["*"], "secret": "s" * 32}
    one = f"{HOOKS}/{(await done(front, 'POST', HOOKS, json=body))['endpoint_id']}"
    await done(front, "PATCH", one, json={"description": "x"}, headers={"If-Match": "1"})
    await done(front, "POST", f"{one}/rotate-secret", json={"secret": "r" * 32})
    times = {"from": rfc3339(now() - timedelta(days=1)), "to": rfc3339(now())}
    await done(front, "POST", f"{one}/replay", json=times)
    sent = await done(front, "POST", f"{one}/test")
    await done(front, "POST", f"/v1/webhooks/deliveries/{sent['delivery_id']}/replay")
    await done(front, "DELETE", one)
