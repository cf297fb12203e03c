"""Reference routes: reasons (G12), sandbox subjects (G64), and the pages problems link to (G67)."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

from aiohttp import web

from app.http.endpoints import Access, Answer, Call, Credential, Endpoint
from app.http.headers import wanted
from app.http.pages import HTML, explained
from app.http.problem_texts import TEXT_OF, kebab
from app.http.responses import JSON, json_answer, json_value
from app.lists.serving import sandbox_entries
from schemas.base import Frozen
from schemas.enums import CheckKind, DecisionOutcome, VerificationStatus
from schemas.lists import EntityKind
from schemas.problems import STATUS_OF, NotFound, ProblemCode
from schemas.reason_catalogue import CATALOGUE
from schemas.reasons import ReasonCode, ReasonEntry
from schemas.transactions import Chain
from streams.verification.sandbox import USUAL_REASON, ScenarioName
from streams.wallets.listed import listed_addresses, sandbox_wallets

KNOWN_CALLER: Final = Access(frozenset({Credential.TENANT_KEY, Credential.REVIEWER_SESSION}))
"""Any key, whatever its scopes (G91)."""


class ReasonCodeList(Frozen):
    """The whole catalogue of reasons."""

    reason_codes: tuple[ReasonEntry, ...]
    next_cursor: None = None


class SandboxScenario(Frozen):
    """One thing a magic subject can ask for."""

    scenario: ScenarioName
    subject_id: str
    """An example; `@anything` after it makes it a subject of its own."""
    status: VerificationStatus
    decision: DecisionOutcome
    reasons: tuple[ReasonCode, ...]
    """What may follow the second colon; empty when the scenario takes no reason."""
    description: str


class SandboxListed(Frozen):
    """An invented entry of the list `sandbox`, which test keys are screened against."""

    entity_id: str
    kind: EntityKind | None
    """Null: a wallet."""
    name: str | None
    birth_dates: tuple[str, ...] = ()
    countries: tuple[str, ...] = ()
    checks: tuple[CheckKind, ...]
    chain: Chain | None
    """Of a wallet, like `address`."""
    address: str | None


class SandboxScenarioList(Frozen):
    """Every scenario the sandbox knows, and whom its list names."""

    scenarios: tuple[SandboxScenario, ...]
    listed: tuple[SandboxListed, ...]
    next_cursor: None = None


_OUTCOME_OF: Final = {
    ScenarioName.APPROVED: (VerificationStatus.APPROVED, DecisionOutcome.ALLOW, "Every check passes."),
    ScenarioName.WARN: (VerificationStatus.APPROVED, DecisionOutcome.WARN, "Passes with a warning."),
    ScenarioName.REVIEW: (
        VerificationStatus.REVIEW_REQUIRED,
        DecisionOutcome.REVIEW_REQUIRED,
        "A person must decide; opens a review case.",
    ),
    ScenarioName.REJECT: (VerificationStatus.REJECTED, DecisionOutcome.BLOCK, "Fails for a final reason."),
    ScenarioName.FAIL: (VerificationStatus.FAILED, DecisionOutcome.HOLD, "The service cannot decide."),
    ScenarioName.SLOW: (
        VerificationStatus.APPROVED,
        DecisionOutcome.ALLOW,
        "Passes after a delay, given with ms or s instead of a reason.",
    ),
}
"""G15, G64."""


def scenarios() -> SandboxScenarioList:
    """Return every scenario with an example, and every entry of the sandbox's list."""
    return SandboxScenarioList(
        scenarios=tuple(_scenario(name) for name in ScenarioName), listed=(*_listed(), *_listed_wallets())
    )


def _listed() -> Iterator[SandboxListed]:
    for entry in sandbox_entries():
        yield SandboxListed(
            entity_id=entry.entity_id,
            kind=entry.kind,
            name=entry.names[0],
            birth_dates=entry.birth_dates,
            countries=entry.countries,
            checks=entry.checks or (CheckKind.SANCTIONS,),
            chain=None,
            address=None,
        )


def _listed_wallets() -> Iterator[SandboxListed]:
    for address, (listing, *_) in sandbox_wallets().listings.items():
        chain = next(chain for chain, one in listed_addresses().items() if one == address)
        yield SandboxListed(
            entity_id=listing.entity_id or "",
            kind=None,
            name=listing.entity_name,
            checks=(CheckKind.SANCTIONS,),
            chain=chain,
            address=address,
        )


def _scenario(name: ScenarioName) -> SandboxScenario:
    status, decision, description = _OUTCOME_OF[name]
    usual = "5s" if name is ScenarioName.SLOW else USUAL_REASON.get(name)
    return SandboxScenario(
        scenario=name,
        subject_id=f"sim:{name}" if usual is None else f"sim:{name}:{usual}",
        status=status,
        decision=decision,
        reasons=tuple(ReasonCode) if name in USUAL_REASON else (),
        description=description,
    )


def reference_endpoints() -> tuple[Endpoint, ...]:
    """Return the routes as data; their answers never change while the process lives."""
    reasons = ReasonCodeList(reason_codes=tuple(CATALOGUE.values())).model_dump_json().encode()
    sandbox = scenarios().model_dump_json().encode()

    async def read_reasons(_: Call) -> web.Response:
        return json_answer(reasons)

    async def read_scenarios(_: Call) -> web.Response:
        return json_answer(sandbox)

    return (
        Endpoint(
            method="GET",
            path="/v1/reason-codes",
            handler=read_reasons,
            summary="List every reason a decision can have",
            family="Reference",
            answers={HTTPStatus.OK: Answer("The catalogue of reasons.", ReasonCodeList)},
            access=KNOWN_CALLER,
        ),
        Endpoint(
            method="GET",
            path="/v1/sandbox/scenarios",
            handler=read_scenarios,
            summary="List what the sandbox can be asked for",
            family="Reference",
            answers={HTTPStatus.OK: Answer("The scenarios.", SandboxScenarioList)},
            access=KNOWN_CALLER,
        ),
    )


_BY_NAME: Final = {kebab(code): code for code in ProblemCode}


async def explain(call: Call) -> web.Response:
    """Answer what a code means and what a caller can do."""
    code = _BY_NAME.get(call.path_value("code"))
    if code is None:
        raise NotFound
    if wanted(call.request, (JSON, HTML)) == HTML:
        return explained(code)
    title, advice = TEXT_OF[code]
    return json_value({"code": code, "title": title, "status": int(STATUS_OF[code]), "advice": advice})


def problem_endpoints() -> tuple[Endpoint, ...]:
    """Return the route as data."""
    names = ("code", "title", "status", "advice")
    kinds = {name: {"type": "integer" if name == "status" else "string"} for name in names}
    schema = {"type": "object", "properties": kinds, "required": [*names]}
    return (
        Endpoint(
            method="GET",
            path="/problems/{code}",
            handler=explain,
            summary="Explain a problem code",
            family="Reference",
            answers={HTTPStatus.OK: Answer("What the code means.", schema, also=(HTML,))},
            path_forms={"code": "[a-z-]{1,64}"},
        ),
    )
