"""Every route for every kind of caller: exactly the status that section 5, G47, G48 and G91 say.

`ROWS` is written by hand from the interface, not from the code; a route without a row fails.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final

import pytest
from pydantic import SecretStr
from typing_extensions import override

from app.http.bodies import BodyBudget
from app.http.server import endpoints_of
from schemas.people import PERMISSIONS_OF, Role
from tests.builders import GLOBEX
from tests.http.support import BARE, FOREIGN, TEST, Front, open_front

TOKEN: Final = "operator-token-of-thirty-two-characters"  # noqa: S105 - a test's own

CONSOLE: Final = "Console"
"""The family of the console's pages, which have a table of their own (`tests/http/test_console.py`)."""

IDS: Final = {
    "code": "NG_NIN_SLIP",
    "subject_id": "nobody",
    "revision": "1",
    "step": "1",
    "family": "nothing",
    "digest": "0123456789",
    "name": "transactions",
    **{
        name: f"{prefix}_{'0' * 26}"
        for name, prefix in {
            "verification_id": "ver",
            "flow_id": "vf",
            "transaction_id": "txn",
            "backtest_id": "bt",
            "review_case_id": "rc",
            "evidence_id": "evd",
            "decision_id": "dec",
            "assessment_id": "wa",
            "screening_id": "ns",
            "disposition_id": "dsp",
            "reviewer_id": "usr",
            "key_id": "key",
            "endpoint_id": "whe",
            "delivery_id": "whd",
            "tenant_id": "ten",
        }.items()
    },
}
"""Ids of the right form that nobody has."""

ROWS: Final = """
POST   /v1/verifications                                        key:verifications:write                                      422
GET    /v1/verifications                                        key:verifications:read person:VERIFICATIONS_READ             200
POST   /v1/transactions                                         key:transactions:write                                       400
POST   /v1/transactions/history                                 key:transactions:write                                       400
GET    /v1/transactions                                         key:transactions:read person:TRANSACTIONS_READ               200
GET    /v1/transactions/{transaction_id}                        key:transactions:read person:TRANSACTIONS_READ               404
GET    /v1/control/subjects/{subject_id}                        person:TRANSACTIONS_READ                                     404
POST   /v1/control/subjects/{subject_id}/reinstate              person:CASES_CONCLUDE                                        422
GET    /v1/verifications/{verification_id}                      key:verifications:read person:VERIFICATIONS_READ             404
POST   /v1/name-screenings                                      key:screenings:write person:SCREENINGS_READ                  422
GET    /v1/name-screenings                                      key:screenings:read person:SCREENINGS_READ                   200
GET    /v1/name-screenings/{screening_id}                       key:screenings:read person:SCREENINGS_READ                   404
POST   /v1/control/dispositions                                 person:CASES_CONCLUDE                                        422
GET    /v1/control/dispositions                                 person:SCREENINGS_READ                                       200
POST   /v1/control/dispositions/{disposition_id}/approve        person:CASES_CONCLUDE                                        404
DELETE /v1/control/dispositions/{disposition_id}                person:CASES_CONCLUDE                                        404
POST   /v1/wallet-assessments                                   key:wallets:write                                            422
POST   /v1/wallet-assessments/batch                             key:wallets:write                                            422
GET    /v1/wallet-assessments                                   key:wallets:read person:WALLETS_READ                         200
GET    /v1/wallet-assessments/{assessment_id}                   key:wallets:read person:WALLETS_READ                         404
GET    /v1/verifications/{verification_id}/explanation          person:CASES_READ                                            404
POST   /v1/verifications/{verification_id}/reveal-number        person:EVIDENCE_READ                                         404
GET    /v1/verifications/{verification_id}/evidence/{evidence_id}  person:EVIDENCE_READ                                      404
GET    /v1/subjects/{subject_id}/export                         person:PRIVACY_MANAGE                                        404
GET    /v1/decisions/{decision_id}                              key:verifications:read person:VERIFICATIONS_READ             404
GET    /v1/audit                                                key:audit:read person:AUDIT_READ                             200
GET    /v1/audit/chain                                          key:audit:read person:AUDIT_READ                             200
GET    /v1/reason-codes                                         key person                                                   200
GET    /v1/sandbox/scenarios                                    key person                                                   200
GET    /v1/catalog                                              key person                                                   200
POST   /v1/verification-flows                                   person:VERIFICATION_FLOWS_MANAGE                             422
GET    /v1/verification-flows                                   key:flows:read person:VERIFICATION_FLOWS_READ                200
GET    /v1/verification-flows/{flow_id}                         key:flows:read person:VERIFICATION_FLOWS_READ                404
PATCH  /v1/verification-flows/{flow_id}                         person:VERIFICATION_FLOWS_MANAGE                             428
POST   /v1/verification-flows/{flow_id}/publish                 person:VERIFICATION_FLOWS_MANAGE                             404
POST   /v1/verification-flows/{flow_id}/archive                 person:VERIFICATION_FLOWS_MANAGE                             404
POST   /v1/verification-flows/{flow_id}/duplicate               person:VERIFICATION_FLOWS_MANAGE                             404
POST   /v1/verification-flows/{flow_id}/preview                 person:VERIFICATION_FLOWS_MANAGE                             404
GET    /v1/verification-flows/{flow_id}/revisions               key:flows:read person:VERIFICATION_FLOWS_READ                404
GET    /v1/verification-flows/{flow_id}/revisions/{revision}    key:flows:read person:VERIFICATION_FLOWS_READ                404
GET    /v1/policies                                             key:policies:read person:POLICIES_READ                       200
GET    /v1/policies/{name}                                      key:policies:read person:POLICIES_READ                       200
GET    /v1/policies/{name}/draft                                key:policies:read person:POLICIES_READ                       404
PUT    /v1/policies/{name}/draft                                key:policies:write person:POLICIES_MANAGE                    422
POST   /v1/policies/{name}/validate                             key:policies:write person:POLICIES_MANAGE                    422
POST   /v1/policies/{name}/publish                              key:policies:write person:POLICIES_MANAGE                    404
GET    /v1/policies/{name}/shadow                               key:policies:read person:POLICIES_READ                       404
PUT    /v1/policies/{name}/shadow                               key:policies:write person:POLICIES_MANAGE                    422
DELETE /v1/policies/{name}/shadow                               key:policies:write person:POLICIES_MANAGE                    204
POST   /v1/policies/{name}/backtests                            key:policies:write person:POLICIES_MANAGE                    422
GET    /v1/policies/{name}/backtests                            key:policies:read person:POLICIES_READ                       200
GET    /v1/policies/{name}/backtests/{backtest_id}              key:policies:read person:POLICIES_READ                       404
POST   /v1/policies/{name}/backtests/{backtest_id}/cancel       key:policies:write person:POLICIES_MANAGE                    404
GET    /v1/policies/{name}/revisions                            key:policies:read person:POLICIES_READ                       200
GET    /v1/policies/{name}/revisions/{revision}                 key:policies:read person:POLICIES_READ                       200
GET    /v1/lists                                                key:lists:read person:LISTS_READ                             200
GET    /v1/lists/{name}                                         key:lists:read person:LISTS_READ                             404
GET    /v1/lists/{name}/entries                                 key:lists:read person:LISTS_READ                             404
PUT    /v1/lists/{name}                                         key:lists:write person:LISTS_MANAGE                          422
PATCH  /v1/lists/{name}                                         key:lists:write person:LISTS_MANAGE                          404
DELETE /v1/lists/{name}                                         key:lists:write person:LISTS_MANAGE                          404
GET    /v1/platform/lists                                       operator                                                     200
PUT    /v1/platform/lists/{name}                                operator                                                     409
POST   /v1/verification-sessions                                key:sessions:write                                           422
GET    /v1/verification-sessions/{session_id}                   key:sessions:write person:VERIFICATIONS_READ                 404
POST   /v1/verification-sessions/{session_id}/cancel            key:sessions:write                                           404
GET    /v1/control/verification-sessions                        person:VERIFICATIONS_READ                                    200
GET    /v1/capture                                              capture                                                      200
GET    /v1/capture/link                                         capture                                                      200
POST   /v1/capture/consent                                      capture                                                      422
PUT    /v1/capture/document                                     capture                                                      422
PUT    /v1/capture/selfie                                       capture                                                      422
POST   /v1/capture/challenge                                    capture                                                      409
PUT    /v1/capture/challenge/{step}                             capture                                                      422
POST   /v1/capture/challenge/skip                               capture                                                      409
POST   /v1/capture/submit                                       capture                                                      409
POST   /v1/subjects/{subject_id}/erase                          person:PRIVACY_MANAGE                                        422
POST   /v1/subjects/{subject_id}/erase/approve                  person:PRIVACY_MANAGE                                        404
GET    /v1/subjects/{subject_id}/erasure                        person:PRIVACY_MANAGE                                        404
GET    /v1/control/review-cases                                 person:CASES_READ                                            200
GET    /v1/control/review-cases/summary                         person:CASES_READ                                            200
POST   /v1/control/review-cases/claim-next                      person:CASES_CONCLUDE                                        204
GET    /v1/control/review-cases/{review_case_id}                person:CASES_READ                                            404
POST   /v1/control/review-cases/{review_case_id}/claim          person:CASES_WORK                                            404
POST   /v1/control/review-cases/{review_case_id}/assign         person:CASES_WORK                                            422
POST   /v1/control/review-cases/{review_case_id}/release        person:CASES_WORK                                            404
POST   /v1/control/review-cases/{review_case_id}/notes          person:CASES_WORK                                            422
POST   /v1/control/review-cases/{review_case_id}/escalate       person:CASES_WORK                                            422
POST   /v1/control/review-cases/{review_case_id}/conclude       person:CASES_CONCLUDE                                        422
POST   /v1/control/review-cases/{review_case_id}/reopen         person:CASES_OVERTURN                                        422
POST   /v1/control/verifications/{verification_id}/appeal       person:CASES_WORK                                            422
POST   /v1/control/sessions                                     anyone                                                       422
GET    /v1/control/sessions                                     person                                                       200
GET    /v1/control/sessions/current                             person:before-factor                                         200
DELETE /v1/control/sessions/current                             person:before-factor                                         204
DELETE /v1/control/sessions/{session_id}                        person                                                       404
GET    /v1/control/mfa                                          person:before-factor                                         200
POST   /v1/control/mfa/verify                                   person:before-factor                                         422
POST   /v1/control/mfa/totp                                     person:before-factor                                         201
POST   /v1/control/mfa/totp/confirm                             person:before-factor                                         422
POST   /v1/control/mfa/recovery-codes                           person                                                       404
DELETE /v1/control/mfa/totp                                     person                                                       404
POST   /v1/control/password                                     person                                                       422
POST   /v1/control/password/reset                               anyone                                                       422
GET    /v1/control/members                                      person:MEMBERS_MANAGE                                        200
POST   /v1/control/members                                      person:MEMBERS_MANAGE                                        422
PATCH  /v1/control/members/{reviewer_id}                        person:MEMBERS_MANAGE                                        422
DELETE /v1/control/members/{reviewer_id}                        person:MEMBERS_MANAGE                                        404
POST   /v1/control/members/{reviewer_id}/reset-factor           person:MEMBERS_MANAGE                                        404
GET    /v1/control/people                                       person                                                       200
GET    /v1/control/preferences                                  person                                                       200
PATCH  /v1/control/preferences                                  person                                                       200
GET    /v1/control/api-keys                                     person:API_KEYS_MANAGE                                       200
POST   /v1/control/api-keys                                     person:API_KEYS_MANAGE                                       422
DELETE /v1/control/api-keys/{key_id}                            person:API_KEYS_MANAGE                                       404
POST   /v1/control/api-keys/{key_id}/rotate                     person:API_KEYS_MANAGE                                       404
GET    /v1/control/settings                                     person:SETTINGS_MANAGE                                       200
PATCH  /v1/control/settings                                     person:SETTINGS_MANAGE                                       200
POST   /v1/webhooks/endpoints                                   key:webhooks:manage person:WEBHOOKS_MANAGE                   422
GET    /v1/webhooks/endpoints                                   key:webhooks:manage person:WEBHOOKS_MANAGE                   200
GET    /v1/webhooks/endpoints/{endpoint_id}                     key:webhooks:manage person:WEBHOOKS_MANAGE                   404
PATCH  /v1/webhooks/endpoints/{endpoint_id}                     key:webhooks:manage person:WEBHOOKS_MANAGE                   404
DELETE /v1/webhooks/endpoints/{endpoint_id}                     key:webhooks:manage person:WEBHOOKS_MANAGE                   404
POST   /v1/webhooks/endpoints/{endpoint_id}/rotate-secret       key:webhooks:manage person:WEBHOOKS_MANAGE                   422
POST   /v1/webhooks/endpoints/{endpoint_id}/test                key:webhooks:manage person:WEBHOOKS_MANAGE                   404
POST   /v1/webhooks/endpoints/{endpoint_id}/replay              key:webhooks:manage person:WEBHOOKS_MANAGE                   422
GET    /v1/webhooks/endpoints/{endpoint_id}/deliveries          key:webhooks:manage person:WEBHOOKS_MANAGE                   404
GET    /v1/webhooks/deliveries/{delivery_id}                    key:webhooks:manage person:WEBHOOKS_MANAGE                   404
POST   /v1/webhooks/deliveries/{delivery_id}/replay             key:webhooks:manage person:WEBHOOKS_MANAGE                   404
GET    /v1/platform/tenants                                     operator                                                     200
POST   /v1/platform/tenants                                     operator                                                     422
POST   /v1/platform/tenants/{tenant_id}/owner-invitations       operator                                                     404
GET    /v1/platform/audit                                       operator                                                     200
GET    /v1/platform/catalog                                     operator                                                     200
POST   /v1/platform/catalog                                     operator                                                     422
GET    /v1/platform/catalog/{code}                              operator                                                     404
PATCH  /v1/platform/catalog/{code}                              operator                                                     428
POST   /v1/platform/catalog/{code}/enable                       operator                                                     404
POST   /v1/platform/catalog/{code}/disable                      operator                                                     404
GET    /v1/events                                               key:events:read                                              200
GET    /v1/asyncapi.json                                        anyone                                                       200
GET    /v1/openapi.json                                         anyone                                                       200
GET    /verify                                                  anyone                                                       200
GET    /docs                                                    anyone                                                       200
GET    /docs/reference/{family}                                 anyone                                                       404
GET    /docs/{name}                                             anyone                                                       404
GET    /assets/docs-index.{digest}.json                         anyone                                                       404
GET    /assets/{name}                                           anyone                                                       404
GET    /problems/{code}                                         anyone                                                       404
GET    /livez                                                   anyone                                                       200
GET    /readyz                                                  anyone                                                       200
"""  # noqa: E501 - a table
"""Method, route, who may ask (and with which scope or permission), and what an admitted caller gets for an
empty body and ids that nobody has."""


Response = tuple[int, str | None]
"""Status, and the code of a problem."""


@dataclass(frozen=True)
class Row:
    """One route of the table."""

    method: str
    path: str
    who: dict[str, str]
    """Kind of caller to the scope or permission it needs; empty when it needs none."""
    admitted: int

    @override
    def __hash__(self) -> int:
        """Tell rows apart by their route."""
        return hash((self.method, self.path))

    @property
    def concrete(self) -> str:
        """The path with ids in it."""
        session = "vs" if "verification-sessions" in self.path else "rs"
        return self.path.format(**IDS, session_id=f"{session}_{'0' * 26}")


def read_row(line: str) -> Row:
    """Read one line of the table."""
    method, path, *who, admitted = line.split()
    kinds = {kind: needed for kind, _, needed in (one.partition(":") for one in who)}
    return Row(method, path, kinds, int(admitted))


TABLE: Final = [read_row(line) for line in ROWS.strip().splitlines()]


@pytest.fixture
async def front() -> AsyncIterator[Front]:
    """A front whose deployment has an operator's token."""
    async with open_front(operator_token=SecretStr(TOKEN)) as opened:
        yield opened


async def ask(front: Front, row: Row, token: str | None) -> Response:
    """Ask with a bearer token, or with nothing: status and code."""
    more: dict[str, Any] = {} if row.method == "GET" else {"json": {}}
    response = await front.ask(row.method, row.concrete, token, **more)
    return response.status, response.code if response.status >= 400 else None


async def ask_as(front: Front, row: Row, role: Role, *, satisfied: bool = True, **more: str) -> Response:
    """Ask as a reviewer of a role: status and code."""
    person = await front.sign_in(role, satisfied=satisfied, **more)  # type: ignore[arg-type]  # a tenant id
    body: dict[str, Any] = {} if row.method == "GET" else {"json": {}}
    response = await person.ask(row.method, row.concrete, **body)
    return response.status, response.code if response.status >= 400 else None


async def test_every_route_has_its_row(front: Front) -> None:
    endpoints = endpoints_of(front.ports, front.settings, BodyBudget(1))
    served = {(e.method, e.path) for e in endpoints if e.family != CONSOLE}

    assert served == {(row.method, row.path) for row in TABLE}


def wrong(
    responses: dict[Row, Response], expected: Callable[[Row], Response]
) -> dict[str, tuple[Response, Response]]:
    """Return the rows that were answered otherwise than expected: what came, and what should have."""
    return {
        f"{row.method} {row.path}": (came, due)
        for row, came in responses.items()
        if (came if (due := expected(row))[1] else (came[0], None)) != due
    }


async def test_nobody_is_asked_to_authenticate(front: Front) -> None:
    result = {row: await ask(front, row, None) for row in TABLE}

    assert wrong(result, lambda row: (row.admitted if "anyone" in row.who else 401, None)) == {}


@pytest.mark.parametrize("key", [TEST, FOREIGN, BARE])
async def test_s6_a_tenant_key_opens_what_its_scopes_say(front: Front, key: str) -> None:
    result = {row: await ask(front, row, key) for row in TABLE}

    def expected(row: Row) -> Response:
        if "anyone" in row.who or ("key" in row.who and (key != BARE or not row.who["key"])):
            return row.admitted, None
        if "key" in row.who:
            return 403, "PERMISSION_DENIED"
        return (403, "API_KEY_NOT_ALLOWED") if "person" in row.who else (401, None)

    assert wrong(result, expected) == {}


@pytest.mark.parametrize("role", Role)
async def test_s6_a_role_opens_what_its_permissions_say(front: Front, role: Role) -> None:
    result = {row: await ask_as(front, row, role) for row in TABLE}

    def expected(row: Row) -> Response:
        needed = row.who.get("person")
        if "anyone" in row.who or needed in {"", "before-factor", *PERMISSIONS_OF[role]}:
            return row.admitted, None
        return (403, "PERMISSION_DENIED") if needed is not None else (401, "UNAUTHENTICATED")

    assert wrong(result, expected) == {}


async def test_s1_another_tenants_reviewer_has_the_same_routes_and_nothing_in_them(front: Front) -> None:
    result = {row: await ask_as(front, row, Role.OWNER, tenant_id=GLOBEX) for row in TABLE}

    def expected(row: Row) -> Response:
        return (row.admitted if {"anyone", "person"} & row.who.keys() else 401), None

    assert wrong(result, expected) == {}


async def test_s12_without_the_second_factor_almost_nothing_opens(front: Front) -> None:
    result = {row: await ask_as(front, row, Role.OWNER, satisfied=False) for row in TABLE}

    def expected(row: Row) -> Response:
        if "anyone" in row.who or row.who.get("person") == "before-factor":
            return row.admitted, None
        return (403, "MFA_REQUIRED") if "person" in row.who else (401, "UNAUTHENTICATED")

    assert wrong(result, expected) == {}


async def test_s6_the_operators_token_opens_the_platform_and_nothing_else(front: Front) -> None:
    result = {row: await ask(front, row, TOKEN) for row in TABLE}

    def expected(row: Row) -> Response:
        return (row.admitted if {"anyone", "operator"} & row.who.keys() else 401), None

    assert wrong(result, expected) == {}


@pytest.mark.parametrize("token", [None, TOKEN, TEST])
async def test_s32_without_the_setting_the_platform_does_not_exist(token: str | None) -> None:
    async with open_front() as front:
        results = [await ask(front, row, token) for row in TABLE if "operator" in row.who]

    assert set(results) == {(404, "NOT_FOUND")}


async def test_every_route_that_writes_says_what_it_audits(front: Front) -> None:
    endpoints = endpoints_of(front.ports, front.settings, BodyBudget(1))
    writing = [e for e in endpoints if e.method not in {"GET", "HEAD"}]

    silent = {  # the list of actions has none for them (G20)
        "POST /v1/capture/challenge",
        "PUT /v1/capture/challenge/{step}",
        "POST /v1/capture/challenge/skip",
        "PUT /v1/capture/document",
        "PUT /v1/capture/selfie",
        "POST /v1/control/mfa/totp",  # a secret that waits for its first code; `confirm` writes the row
        "POST /v1/policies/{name}/validate",  # stores nothing
        "POST /v1/webhooks/endpoints/{endpoint_id}/test",  # a ping to oneself tells nothing of anybody
    }
    assert {f"{e.method} {e.path}" for e in writing if not e.audits} == silent
