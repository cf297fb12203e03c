"""The reviewers' list with 100,000 sessions against the same with 100: `python -m tests.bench.sessions_list`.

Both stand in SQLite behind one front each, over real sockets in this process, and are asked in turns, so that
whatever else the machine does falls on both. The ratio of the 95th percentiles is what counts, and how many
of the long list's pages were whole: as many sessions as asked for, or all there are.
"""

import argparse
import asyncio
import json
import logging
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import urlencode

import structlog
from aiohttp import ClientSession, web

from app.adapters.sqlite.stores import open_sqlite_stores
from app.http.routes.sessions.list import PAGING, PATH
from app.http.server import create_app, make_runner
from schemas.enums import DecisionOutcome, FlowType, SessionStatus
from schemas.ids import SessionId, SubjectId, derive_id
from schemas.people import Role
from schemas.sessions import VerificationSession
from streams.ports.records import Change
from streams.ports.stores import Stores
from streams.sign_in.cookies import COOKIE
from streams.verification.records import session_record
from tests.builders import ACME, NOW
from tests.contracts.adapters import ROOT_KEY
from tests.http.support import Front, open_front

BATCH_SIZE: Final = 500
"""Sessions in one commit."""

STATUSES: Final = (
    *[SessionStatus.APPROVED] * 70, *[SessionStatus.REVIEW_REQUIRED] * 10, *[SessionStatus.REJECTED] * 10,
    *[SessionStatus.EXPIRED] * 5, *[SessionStatus.CREATED] * 3, SessionStatus.FAILED, SessionStatus.CANCELLED,
)  # fmt: skip

FILTERS: Final[dict[str, dict[str, str]]] = {
    "nothing": {},
    "a hundred rows": {"limit": "100"},
    **{f"status {status}": {"status": status} for status in SessionStatus},
    **{f"decision {decision}": {"decision": decision} for decision in DecisionOutcome},
    "status and decision": {"status": "APPROVED", "decision": "ALLOW"},
    "status against decision": {"status": "APPROVED", "decision": "BLOCK"},
    "live": {"livemode": "true"},
    "subject of one": {"subject": "CUSTOMER-000042"},
    "subject of some": {"subject": "0042"},
    "subject of all": {"subject": "r"},
    "subject of half": {"subject": "Customer-"},
    "subject of all and a rare status": {"subject": "us", "status": "FAILED"},
    "subject of some and a status": {"subject": "42", "status": "REJECTED"},
    "two letters": {"subject": "7a"},
    "two letters of nobody": {"subject": "zz"},
    "subject of nobody": {"subject": "nobody"},
    "subject of nobody, of known pieces": {"subject": "customer-usr"},
    "subject, test data": {"subject": "cust", "livemode": "false"},
    "session": {"session_id": derive_id("vs", "7")},
    "session and status": {"session_id": derive_id("vs", "7"), "status": "FAILED"},
    "no session": {"session_id": derive_id("vs", "none")},
}


def usual(n: int, drawn: random.Random) -> str:
    """A subject as tenants name them, in two ways."""
    return f"Customer-{n:06}" if n % 2 else f"usr_{drawn.randbytes(8).hex()}"


def halves(n: int, drawn: random.Random) -> str:
    """A subject that shares a long piece with all others, and all of its pieces with half of them."""
    number = drawn.randrange(10**6)
    return f"site-alpha-{number}" if drawn.random() < 0.5 else f"alpha-shop-{number}-{n}"


def wholes(n: int, _: random.Random) -> str:
    """A subject that shares all of its pieces with all others."""
    return f"alpha-bravo-a-beta-{n}"


Naming: TypeAlias = Callable[[int, random.Random], str]

WORST: Final[dict[str, tuple[Naming, dict[str, str]]]] = {
    "nobody, of pieces of half each": (halves, {"subject": "site-alpha-shop"}),
    "nobody, of pieces of all": (wholes, {"subject": "alpha-beta"}),
}
"""What no index of pieces can tell from something that exists, over subjects made for it."""


def row(n: int, drawn: random.Random, named: Naming) -> VerificationSession:
    """The n-th session, a second after the one before it."""
    moment, subject = NOW + timedelta(seconds=n), named(n, drawn)
    return VerificationSession(
        session_id=SessionId(derive_id("vs", str(n))), subject_id=SubjectId(subject),
        flow_type=FlowType.FULL_IDENTITY, status=drawn.choice(STATUSES), attempts=1, created_at=moment,
        updated_at=moment, livemode=n % 50 != 0,
    )  # fmt: skip


async def fill(stores: Stores, rows: int, named: Naming) -> None:
    """Keep as many sessions."""
    drawn = random.Random(1)
    for start in range(0, rows, BATCH_SIZE):
        some = [row(n, drawn, named) for n in range(start, min(start + BATCH_SIZE, rows))]
        records = tuple(session_record(ACME, one, one.to_bytes(), "f" * 64) for one in some)
        await stores.journal.commit(Change(ACME, records))


@asynccontextmanager
async def serving(front: Front, rows: int, named: Naming = usual) -> AsyncIterator[str]:
    """Serve the list over as many sessions, to who signed in at the front."""
    with tempfile.TemporaryDirectory() as folder:
        async with open_sqlite_stores(Path(folder), ROOT_KEY, durable=False) as stores:
            await fill(stores, rows, named)
            ports = replace(front.ports, stores=replace(front.stores, records=stores.records))
            runner = make_runner(create_app(ports, front.settings), ports, front.settings)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            try:
                yield f"http://127.0.0.1:{runner.addresses[0][1]}"
            finally:
                await runner.cleanup()


@dataclass(frozen=True, slots=True)
class Compared:
    """How long one filter took over few and over many sessions, in seconds."""

    few_s: list[float]
    many_s: list[float]
    whole: float
    """The share of the long list's pages that a search did not leave short."""

    def ratio(self, share: float) -> float:
        """How much longer the long list takes, at a quantile."""
        return quantile_ms(self.many_s, share) / quantile_ms(self.few_s, share)

    def line(self, name: str) -> str:
        """One line: the 95th percentiles and their ratio, that of the medians, the share of whole pages."""
        few, many = quantile_ms(self.few_s, 0.95), quantile_ms(self.many_s, 0.95)
        ratios = f"{self.ratio(0.95):5.2f}  {self.ratio(0.5):5.2f}"
        return f"{name:36} {few:6.1f} ms {many:6.1f} ms  {ratios}  {self.whole:5.0%} whole\n"


def quantile_ms(taken_s: list[float], share: float) -> float:
    """The quantile in milliseconds."""
    return sorted(taken_s)[int(len(taken_s) * share)] * 1_000


async def compare(
    client: ClientSession, few: str, many: str, query: dict[str, str], asked: dict[str, str], times: int
) -> Compared:
    """Ask both in turns, the long list for what is asked of it."""
    taken: dict[str, list[float]] = {few: [], many: []}
    whole = 0
    for _ in range(times):
        for url, wanted in ((few, query), (many, asked)):
            began = time.perf_counter()
            async with client.get(f"{url}{PATH}?{urlencode(wanted)}") as answer:
                body = await answer.read()
                assert answer.status == 200
            taken[url].append(time.perf_counter() - began)
        page = json.loads(body)
        whole += page["next_cursor"] is None or len(page["sessions"]) == PAGING.limit(asked)
    return Compared(taken[few], taken[many], whole / times)


async def deep(client: ClientSession, url: str, query: dict[str, str]) -> dict[str, str]:
    """The query with the cursor of the last page but some, when there are so many."""
    cursor: dict[str, str] = {}
    for _ in range(20):
        async with client.get(f"{url}{PATH}?{urlencode(query | cursor | {'limit': '100'})}") as answer:
            following = (await answer.json())["next_cursor"]
        if following is None:
            return query | cursor
        cursor = {"cursor": following}
    return query | cursor


async def worst_of(
    client: ClientSession,
    few: str,
    many: str,
    asked: dict[str, tuple[dict[str, str], dict[str, str]]],
    times: int,
) -> float:
    """Compare both lists for what is asked of each, print it, and return the worst ratio."""
    worst = 0.0
    for name, (query, deeper) in asked.items():
        await compare(client, few, many, query, deeper, 3)
        shown = await compare(client, few, many, query, deeper, times)
        worst = max(worst, shown.ratio(0.95))
        sys.stdout.write(shown.line(name))
    return worst


async def main(rows: int, times: int) -> float:
    """Compare every filter; print and return the worst ratio."""
    async with AsyncExitStack() as stack:
        front = await stack.enter_async_context(open_front())
        reviewer = await front.sign_in(Role.REVIEWER)
        few = await stack.enter_async_context(serving(front, 100))
        began = time.perf_counter()
        many = await stack.enter_async_context(serving(front, rows))
        sys.stdout.write(f"{rows} sessions kept in {time.perf_counter() - began:.0f} s\n")
        cookies = {"Cookie": f"{COOKIE}={reviewer.cookie}"}
        client = await stack.enter_async_context(ClientSession(headers=cookies))
        pages = {f"page 21 of {name}": FILTERS[name] for name in ("nothing", "subject of half")}
        asked = {name: (query, query) for name, query in FILTERS.items()}
        asked |= {name: (query, await deep(client, many, query)) for name, query in pages.items()}
        worst = await worst_of(client, few, many, asked, times)
        for name, (named, query) in WORST.items():
            few = await stack.enter_async_context(serving(front, 100, named))
            many = await stack.enter_async_context(serving(front, rows, named))
            worst = max(worst, await worst_of(client, few, many, {name: (query, query)}, times))
    sys.stdout.write(f"worst ratio {worst:.2f}\n")
    return worst


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=100, help="requests for each filter and list")
    chosen = parser.parse_args()
    asyncio.run(main(chosen.rows, chosen.times))
