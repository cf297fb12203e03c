"""`/v1/policies/{name}/backtests`: try a text on stored transactions, and read what came of it (G115)."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, Final

from aiohttp import web
from pydantic import Field, StrictBool

from app.http.bodies import BodyReader
from app.http.cursors import Cursors
from app.http.endpoints import Answer, Call, Endpoint
from app.http.idempotent_create import KEY_PROBLEMS, REPLAYED, name_created
from app.http.listing import LIVEMODE, Page, Paging, modes, page_of
from app.http.ports import FrontPorts
from app.http.responses import json_answer, json_list
from app.http.routes.control_sessions import IDEMPOTENCY
from app.http.routes.policies import MANAGES, NAME_FORM, PATH, READS
from app.http.routes.shadow_policies import ChosenText
from schemas.audit import AuditAction
from schemas.backtests import Backtest, StoredBacktest
from schemas.base import Frozen
from schemas.ids import BacktestId
from schemas.problems import NotFound, ProblemCode
from schemas.transactions import Moment
from schemas.verifications import SubjectName
from streams.backtests.records import load_backtest
from streams.backtests.requests import NewBacktest, RequestBacktests, shown_backtest
from streams.policies.in_use import KnownLists
from streams.policies.storage import load_policy
from streams.ports.records import Record, RecordKind
from streams.verification.records import by_mode

ALL: Final = f"{PATH}/{{name}}/backtests"
ONE: Final = f"{ALL}/{{backtest_id}}"
FORMS: Final = NAME_FORM | {"backtest_id": r"bt_[0-9a-hjkmnp-tv-z]{26}"}
PAGING: Final = Paging(usual=25, most=100)

_FAMILY: Final = "Backtests"


class BacktestBody(ChosenText):
    """Which text is tested, on the transactions of which time."""

    since: Annotated[Moment, Field(alias="from")]
    """The first transaction was accepted then or later."""
    until: Annotated[Moment, Field(alias="to")]
    """The last one was accepted before."""
    subject_id: SubjectName | None = None
    """Of one subject alone."""
    livemode: StrictBool = True
    """On live or test data; a key tests on its own mode whatever is asked."""


class BacktestList(Frozen):
    """A page of backtests, newest first."""

    backtests: tuple[Backtest, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class BacktestRoutes:
    """What the routes of backtests do."""

    ports: FrontPorts
    bodies: BodyReader
    cursors: Cursors
    known_lists: KnownLists

    async def create(self, call: Call) -> web.Response:
        """Queue a backtest; a replayed key answers with the first one as it stands."""
        name = await self._name(call)
        body = await self.bodies.read(call, BacktestBody)
        livemode = body.livemode if call.tenant is None else call.tenant.livemode
        tenant_id, fresh = call.tenant_id, self.ports.fresh_uuid
        named = name_created("bt", call, body, fresh, tenant_id=tenant_id, livemode=livemode)
        new = NewBacktest(
            backtest_id=BacktestId(named.id),
            fingerprint=named.fingerprint,
            tenant_id=tenant_id,
            policy=name,
            revision=body.revision,
            since=body.since,
            until=body.until,
            subject_id=body.subject_id,
            livemode=livemode,
        )
        stored, replayed = await self._requests.create(new, call.actor)
        headers = {REPLAYED: "true"} if replayed else {"Location": f"{call.request.path}/{named.id}"}
        return json_answer(_whole(stored), HTTPStatus.ACCEPTED, headers)

    async def read(self, call: Call) -> web.Response:
        """Answer a backtest as it stands."""
        return json_answer(_whole((await self._found(call))[1]))

    async def cancel(self, call: Call) -> web.Response:
        """End a backtest; one that is over stays as it is."""
        return json_answer(_whole(await self._requests.cancel(*await self._found(call), call.actor)))

    async def list_page(self, call: Call) -> web.Response:
        """Answer a page of backtests."""
        name, query, seen = await self._name(call), call.request.query, modes(call)
        scope = {"tenant": call.tenant_id, "list": "backtests", "policy": name, "modes": repr(seen)}
        cursor = query.get("cursor")
        page = Page(PAGING.limit(query), self.cursors.read(cursor, scope) if cursor is not None else None)
        listed = await page_of(
            self.ports.stores.records, call.tenant_id, RecordKind.BACKTEST, seen, by_mode, page
        )
        rows = [_whole(StoredBacktest.from_bytes(record.body)) for record in listed.records]
        return json_list("backtests", rows, self.cursors.write_next(listed.following, scope))

    @property
    def _requests(self) -> RequestBacktests:
        ports = self.ports
        return RequestBacktests(ports.stores.records, ports.commit, ports.clock, self.known_lists)

    async def _found(self, call: Call) -> tuple[Record, StoredBacktest]:
        """Return a backtest of the caller's tenant, mode and policy, or raise `NotFound`."""
        name, about = await self._name(call), BacktestId(call.path_value("backtest_id"))
        record, stored = await load_backtest(self.ports.stores.records, call.tenant_id, about)
        if stored.policy != name or stored.livemode not in modes(call):
            raise NotFound(about)
        return record, stored

    async def _name(self, call: Call) -> str:
        """Return the name of a policy that exists, or raise `NotFound`."""
        name = call.path_value("name")
        await load_policy(self.ports.stores.records, call.tenant_id, name)
        return name


def _whole(stored: StoredBacktest) -> bytes:
    return shown_backtest(stored).model_dump_json(by_alias=True).encode()


def backtest_endpoints(routes: BacktestRoutes) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    common: dict[str, Any] = {"family": _FAMILY, "path_forms": FORMS}
    every = common | {"path_forms": NAME_FORM}
    return (
        Endpoint(
            method="POST",
            path=ALL,
            handler=routes.create,
            summary="Try a text on stored transactions",
            description="A worker decides the transactions that were accepted from `from` to `to` again, in "
            "their order, by the text as it is now: features are computed anew, check results and outcomes "
            "of earlier transactions stay as they were. Nothing else is written.",
            answers={
                HTTPStatus.ACCEPTED: Answer(
                    "The backtest, which waits for a worker.",
                    Backtest,
                    headers={REPLAYED: "`true` when the Idempotency-Key had been used."},
                )
            },
            access=MANAGES,
            headers=(IDEMPOTENCY,),
            body=BacktestBody,
            problems=(ProblemCode.POLICY_INVALID, *KEY_PROBLEMS),
            audits=(AuditAction.POLICY_BACKTESTED,),
            **every,
        ),
        Endpoint(
            method="GET",
            path=ALL,
            handler=routes.list_page,
            summary="List backtests, newest first",
            answers={HTTPStatus.OK: Answer("A page of backtests.", BacktestList)},
            access=READS,
            parameters=(LIVEMODE, *PAGING.parameters),
            **every,
        ),
        Endpoint(
            method="GET",
            path=ONE,
            handler=routes.read,
            summary="Read a backtest",
            answers={HTTPStatus.OK: Answer("As it stands, with its result once it is DONE.", Backtest)},
            access=READS,
            **common,
        ),
        Endpoint(
            method="POST",
            path=f"{ONE}/cancel",
            handler=routes.cancel,
            summary="Cancel a backtest",
            description="Its process ends within seconds. One that is over stays as it is.",
            answers={HTTPStatus.OK: Answer("The backtest.", Backtest)},
            access=MANAGES,
            audits=(AuditAction.POLICY_BACKTESTED,),
            **common,
        ),
    )
