"""Point 20, S58, S59: each act that matters is audited, once; erasing a subject breaks no chain."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyotp
import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from app.adapters.security.crypto import RootKey
from app.adapters.sqlite import engine
from app.adapters.sqlite.stores import open_sqlite_stores
from app.composition.front import while_unavailable
from app.composition.start_audit import SettingMarks, write_front_start
from app.composition.stores import open_deployment
from app.http.denials import DENIALS
from app.settings import Settings
from schemas.audit import AuditFilter, SealAudit
from schemas.ids import PLATFORM, SubjectId, TenantId
from schemas.people import Role
from schemas.problems import StoreUnavailable
from streams.audit.handler import SealChain, verify_chain
from streams.ports.records import Change, Committed
from tests.builders import ACME
from tests.chaos.store_lock import nobody_writes
from tests.http.furnished import HOOKS, SUBJECT, Furnished, open_furnished
from tests.http.reviewers import CHANGE, CONFIRM, CURRENT, PASSWORD, RESET, TOTP, VERIFY, WRONG, open_office
from tests.http.support import BARE, BASE_URL, Front, Response
from tests.http.test_permissions import TOKEN

CONTROL: Final = "/v1/control"


class Log:
    """Tells what was written since it was last asked."""

    def __init__(self, front: Front, tenant_id: TenantId = ACME) -> None:
        self._front = front
        self._tenant_id = tenant_id
        self._seen = len(self._rows())

    def _rows(self) -> list[Any]:
        return list(self._front.shelves.audit.get(self._tenant_id, {}).values())

    def new(self) -> list[str]:
        """The actions of the new rows, oldest first."""
        rows = self._rows()[self._seen :]
        self._seen += len(rows)
        return [str(row.action) for row in rows]


async def test_s59_every_step_of_a_sign_in_is_one_row() -> None:
    async with open_office() as office:
        member = await office.add(role=Role.OWNER)
        log, browser, collected = Log(office.front), office.browser(), dict[str, list[str]]()

        async def step(name: str, answer: Response, status: int) -> Response:
            assert (name, answer.status) == (name, status)
            collected[name] = log.new()
            office.clock.wait(seconds=60)
            return answer

        await step("a wrong password", await browser.sign_in(password=WRONG), 401)
        await step("a sign-in", await browser.sign_in(), 201)
        begun = await step("a factor begun", await browser.ask("POST", TOTP), 201)
        device = pyotp.TOTP(begun.json["secret"])
        confirmed = await browser.ask("POST", CONFIRM, json={"code": office.code(device)})
        codes = (await step("a factor", confirmed, 200)).json["recovery_codes"]
        await step("a sign-out", await browser.ask("DELETE", CURRENT), 204)
        await browser.sign_in()
        log.new()
        await step("a wrong code", await browser.ask("POST", VERIFY, json={"code": "000000"}), 401)
        office.clock.wait(minutes=5)
        await step("a code", await browser.verify(device), 200)
        await browser.ask("DELETE", CURRENT)
        await browser.sign_in()
        log.new()
        await step("a recovery", await browser.ask("POST", VERIFY, json={"recovery_code": codes[0]}), 200)
        new = {"current_password": PASSWORD, "new_password": "ten blue umbrellas, wet"}
        await step("a new password", await browser.ask("POST", CHANGE, json=new), 204)
        token = {"token": await office.issue(member), "new_password": "eleven red umbrellas"}
        await step("a password forgotten", await browser.ask("POST", RESET, json=token), 204)
        await browser.sign_in(password="eleven red umbrellas")  # noqa: S106 - of nobody
        await browser.verify(device)
        log.new()
        gone = {"password": "eleven red umbrellas"}
        await step("a factor given up", await browser.ask("DELETE", TOTP, json=gone), 204)

    assert collected == {
        "a wrong password": ["reviewer.sign_in_failed"],
        "a sign-in": ["reviewer.signed_in"],
        "a factor begun": [],
        "a factor": ["mfa.enrolled"],
        "a sign-out": ["reviewer.signed_out"],
        "a wrong code": ["mfa.failed"],
        "a code": ["mfa.verified"],
        "a recovery": ["mfa.verified"],
        "a new password": ["reviewer.password_changed"],
        "a password forgotten": ["reviewer.password_changed"],
        "a factor given up": ["mfa.reset"],
    }


EXPECTED: Final[Mapping[str, tuple[str, ...]]] = {
    "a key": ("api_key.created",),
    "a key rotated": ("api_key.rotated",),
    "a key revoked": ("api_key.revoked",),
    "an endpoint": ("webhook.created",),
    "an endpoint changed": ("webhook.updated",),
    "an endpoint's secret": ("webhook.rotated",),
    "an endpoint gone": ("webhook.deleted",),
    "a flow": ("flow.created",),
    "a flow changed": ("flow.updated",),
    "a flow published": ("flow.published",),
    "a flow archived": ("flow.archived",),
    "settings": ("tenant.settings_changed",),
    "an invitation": ("member.invited",),
    "a role": ("member.role_changed",),
    "a member suspended": ("member.suspended",),
    "evidence": ("evidence.viewed",),
    "a conclusion": ("case.concluded",),
    "an export": ("audit.exported",),
    "a refused act": ("access.denied",),
}


async def test_s59_every_change_view_conclusion_export_and_refusal_is_one_row() -> None:
    async with open_furnished() as furnished:
        owner, ids, log = furnished.owner, furnished.ids, Log(furnished.front)
        verification, case = (
            f"/v1/verifications/{ids['verification_id']}",
            f"review-cases/{ids['review_case_id']}",
        )
        key, hook = f"{CONTROL}/api-keys/{ids['key_id']}", f"{HOOKS}/{ids['endpoint_id']}"
        flow = f"/v1/verification-flows/{ids['flow_id']}"
        member, first = f"{CONTROL}/members/{ids['reviewer_id']}", {"If-Match": "1"}
        concluded = {"outcome": "APPROVE", "note": "x"}
        made = {"name": "x", "livemode": False, "expires_at": "never"}
        receiver = {"url": "https://hooks.example/new", "event_types": ["*"], "secret": "s" * 32}
        invited = {"email": "new@acme.example", "name": "N", "role": "AUDITOR"}
        version = {"If-Match": (await owner.ask("GET", flow)).headers["ETag"]}
        log.new()
        responses = {
            name: ((await owner.ask(method, path, **more)).status < 300, tuple(log.new()))
            for name, method, path, more in (
                ("a key", "POST", f"{CONTROL}/api-keys", {"json": made}),
                ("a key rotated", "POST", f"{key}/rotate", {"json": {"overlap_seconds": 60}}),
                ("a key revoked", "DELETE", key, {}),
                ("an endpoint", "POST", HOOKS, {"json": receiver}),
                ("an endpoint changed", "PATCH", hook, {"json": {"description": "x"}, "headers": first}),
                ("an endpoint's secret", "POST", f"{hook}/rotate-secret", {"json": {"secret": "r" * 32}}),
                ("an endpoint gone", "DELETE", hook, {}),
                ("a flow", "POST", f"{flow}/duplicate", {}),
                ("a flow changed", "PATCH", flow, {"json": {"return_url": BASE_URL}, "headers": version}),
                ("a flow published", "POST", f"{flow}/publish", {}),
                ("a flow archived", "POST", f"{flow}/archive", {}),
                ("settings", "PATCH", f"{CONTROL}/settings", {"json": {"four_eyes": "NEVER"}}),
                ("an invitation", "POST", f"{CONTROL}/members", {"json": invited}),
                ("a role", "PATCH", member, {"json": {"role": "AUDITOR"}}),
                ("a member suspended", "PATCH", member, {"json": {"active": False}}),
                ("evidence", "GET", f"{verification}/evidence/{ids['evidence_id']}", {}),
                ("a conclusion", "POST", f"{CONTROL}/{case}/conclude", {"json": concluded}),
                ("an export", "GET", "/v1/audit", {"headers": {"Accept": "text/csv"}}),
            )
        }  # fmt: skip
        await furnished.front.ask("GET", "/v1/audit", BARE)
        await furnished.front.app[DENIALS].flush()
        responses["a refused act"] = (True, tuple(log.new()))

    assert responses == {name: (True, actions) for name, actions in EXPECTED.items()}


async def test_s59_what_the_operator_does_is_one_row_of_the_platform() -> None:
    async with open_furnished() as furnished:
        log, entry = Log(furnished.front, PLATFORM), f"/v1/platform/catalog/{furnished.ids['code']}"
        responses = [
            ((await furnished.front.ask(method, path, TOKEN, **more)).status < 300, log.new())
            for method, path, more in (
                ("POST", "/v1/platform/tenants", {"json": {"name": "Initech"}}),
                ("POST", f"{entry}/disable", {}),
                ("POST", f"{entry}/enable", {}),
                ("PATCH", entry, {"json": {"display_name": "Slip"}, "headers": {"If-Match": "3"}}),
            )
        ]

    assert responses == [
        (True, [action])
        for action in ("tenant.created", "catalog.disabled", "catalog.enabled", "catalog.updated")
    ]


async def test_s59_a_start_is_a_row_that_names_settings_and_no_value(tmp_path: Path) -> None:
    token = secrets.token_urlsafe(48)
    settings = Settings(data_dir=tmp_path, platform_operator_token=SecretStr(token), answer_timeout_s=12.5)
    async with open_deployment(settings) as deployment:
        marks = SettingMarks.under(deployment.root_key)
        await write_front_start(deployment.stores.journal.commit, settings, marks, "http://127.0.0.1:8080")
        (row,) = await deployment.stores.audit_log.page(
            PLATFORM, AuditFilter(action="service.started"), limit=9
        )

    assert (row.actor_type.value, row.subject_id) == ("SYSTEM", "front")
    assert {"SERVICE_ANSWER_TIMEOUT_S", "SERVICE_PLATFORM_OPERATOR_TOKEN"} <= set(
        row.context["changes"]["settings"]
    )
    assert [secret for secret in (token, "12.5", str(tmp_path)) if secret in str(row)] == []


async def test_s59_a_start_whose_store_is_late_is_a_row_once_it_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "BUSY_TIMEOUT_MS", 20)
    settings = Settings(data_dir=tmp_path)
    async with open_deployment(settings) as deployment:
        journal, marks = deployment.stores.journal, SettingMarks.under(deployment.root_key)

        def start(for_s: float) -> Coroutine[Any, Any, str]:
            async def commit(change: Change) -> Committed:
                return await while_unavailable(partial(journal.commit, change), for_s, again_after_s=0.05)

            return write_front_start(commit, settings, marks, "http://[::1]:1")

        with capture_logs() as logged:
            async with nobody_writes(tmp_path):
                with pytest.raises(StoreUnavailable):
                    await start(for_s=0.1)
                patient, refused = asyncio.create_task(start(for_s=600)), len(logged)
                while len(logged) < refused + 2:  # noqa: ASYNC110 - a log has no event
                    await asyncio.sleep(0.01)
            start_id = await patient
        rows = await deployment.stores.audit_log.page(
            PLATFORM, AuditFilter(action="service.started"), limit=9
        )

    assert [row.event_id for row in rows] == [start_id]
    assert {one["event"] for one in logged} == {"front.store_late"}


KEY = RootKey(b"r" * 32)
NOTE = "Mrs Canary called."


@pytest.fixture
async def furnished(tmp_path: Path) -> AsyncIterator[Furnished]:
    """A tenant with everything, over SQLite."""
    async with (
        open_sqlite_stores(tmp_path, KEY, durable=False) as stores,
        open_furnished(stores=stores) as opened,
    ):
        yield opened


async def test_s58_a_chain_holds_after_its_subjects_were_erased(furnished: Furnished) -> None:
    stores = furnished.front.stores
    await SealChain(stores.audit_log)(SealAudit(tenant_id=ACME))
    before = await verify_chain(stores.audit_log, ACME)

    for subject in (f"{SUBJECT}0", "sim:approved@canary"):
        await stores.vault.destroy(ACME, SubjectId(subject))

    after = await verify_chain(stores.audit_log, ACME)
    assert (before.ok, after) == (True, before)
    assert after.rows > 10


async def test_s58_no_row_holds_what_an_erasure_would_have_to_remove(furnished: Furnished) -> None:
    """Rows name subjects by the tenant's own id; what a document or a person said is nowhere in them."""
    verification = f"/v1/verifications/{furnished.ids['verification_id']}"
    case = f"{CONTROL}/review-cases/{furnished.ids['review_case_id']}"
    read = (await furnished.owner.ask("GET", verification)).json["document"]["extracted_fields"]
    await furnished.owner.ask("POST", f"{case}/notes", json={"text": NOTE})
    await furnished.owner.ask("POST", f"{case}/conclude", json={"outcome": "APPROVE", "note": NOTE})

    rows = await furnished.front.stores.audit_log.page(ACME, AuditFilter(), limit=200)

    values = [str(value) for value in read.values() if len(str(value)) > 3]
    text = " ".join(row.model_dump_json(exclude={"subject_id"}) for row in rows)
    assert values
    assert [value for value in (*values, NOTE, "Canary", "acme.example") if value in text] == []
