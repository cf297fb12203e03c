"""A front on a real socket over memory stores and the real use case, without the log between them."""

import asyncio
import base64
import io
import json
import secrets
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import gettempdir
from typing import Any, Final, TypeVar

import aiohttp
from aiohttp import web
from PIL import Image
from prometheus_client import CollectorRegistry
from uuid_utils.compat import uuid7

from app.adapters.files.list_snapshots import ListSnapshots
from app.adapters.memory.stores import Shelves, open_memory_stores
from app.adapters.security.crypto import RootKey
from app.adapters.security.passwords import PARAMETERS, Argon2Passwords
from app.http.ports import Authenticator, FrontPorts, FrontSettings
from app.http.rate_limits import RateLimiter
from app.http.server import create_app, make_runner
from app.intake.admission import Admission
from app.intake.capture import CaptureTokens, build_capture_intake
from app.intake.dispositions import DispositionIntake
from app.intake.history import HistoryIntake
from app.intake.name_screenings import NameScreeningIntake
from app.intake.transactions import TransactionIntake
from app.intake.verifications import Intake
from app.lists.publishing import PublishList
from app.lists.serving import sandbox_list
from app.observability.health_probes import Probe
from app.observability.metrics import build_metrics
from app.vision.pool import VisionPool
from app.vision.pooled import PooledImageDecoder
from schemas.access import TenantCaller
from schemas.base import Command, Event
from schemas.enums import Scope
from schemas.flows import FlowCommand
from schemas.ids import (
    PLATFORM,
    KeyId,
    ReviewerSessionId,
    TenantId,
    UserId,
    VerificationId,
    derive_id,
    encode_id,
)
from schemas.keyed_features import ComputeFeatures, FeaturesComputed, KeyedCommand
from schemas.name_screenings import ScreenNames
from schemas.people import OpenSession, Reviewer, ReviewerSession, Role
from schemas.policy_records import PolicyCommand
from schemas.problems import Refused, Unauthenticated
from schemas.reviews import CaseCommand
from schemas.sessions import RecordOutcome, SessionCommand
from schemas.tenant_lists import ListChanged
from schemas.topics import Topic
from schemas.transaction_decisions import TransactionCommand
from schemas.verifications import SubmitVerification
from streams.audit.commit import CommitAndPublish
from streams.catalog.handler import Catalogue
from streams.dispositions.handler import CreateDispositions
from streams.dispositions.records import StoredDispositions
from streams.flows.handler import ChangeFlow
from streams.lists.current import CurrentLists
from streams.lists.handler import ChangeLists
from streams.lists.loaded import ListStates, LoadedLists
from streams.lists.screening import ListScreening
from streams.lists.storage import ListStorage
from streams.name_screenings.handler import ScreenNamesOnce
from streams.policies.handler import ChangePolicy
from streams.policies.in_use import KnownListNames, ListsInUse
from streams.policies.published import PublishedPolicies
from streams.ports.records import Change, Records
from streams.ports.stores import Stores, WorkingState
from streams.reviewers.addresses import email_record
from streams.reviewers.context import ABSOLUTE, Passwords, People
from streams.reviewers.members import reviewer_record
from streams.reviews.dispositions import CaseDispositions
from streams.reviews.handler import ChangeCase
from streams.runtime.producer import Outgoing
from streams.runtime.tables import partition_of
from streams.sessions.handler import ChangeSession
from streams.sign_in.cookies import COOKIE, draw_cookie, hash_cookie
from streams.sign_in.session_cookies import RecogniseReviewer, session_record
from streams.sign_in.sessions import first_lookup
from streams.tenants.api_keys import TenantKeys
from streams.tenants.settings import read_settings
from streams.transactions.checks import Checks
from streams.transactions.contact_checks import CONTACT_CHECKS, ContactChecks
from streams.transactions.handler import ScreenTransactions
from streams.transactions.keyed.asking import KeyedFeatures
from streams.transactions.keyed.handler import KeyedVelocity
from streams.transactions.keyed_hashes import KeyedHashes
from streams.transactions.name_checks import name_checks
from streams.transactions.published import StoredPolicies
from streams.transactions.wallets import TransactionWallets
from streams.verification.engines import Engines
from streams.verification.handler import EvaluateVerification
from streams.verification.policy import VerificationPolicy
from streams.wallets.handler import AssessWallets
from streams.wallets.judging import JudgeWallets, NodeNames
from streams.wallets.listed import LoadedWalletLists
from tests.builders import ACME, GLOBEX
from tests.children import shared_forker
from tests.http.audited import unpromised

Answer = TypeVar("Answer", bound=Event)
Json = dict[str, Any]

TEST: Final = "idv_test_acme"
LIVE: Final = "idv_live_acme"
FOREIGN: Final = "idv_test_globex"
REVOKED: Final = "idv_test_revoked"
UNKNOWN: Final = "idv_test_nobody"
BARE: Final = "idv_test_without_scopes"

PATH: Final = "/v1/verifications"
BASE_URL: Final = "https://id.example"
PEPPER: Final = b"p" * 32
HASHES: Final = KeyedHashes(b"h" * 32)

CHEAP: Final = replace(PARAMETERS, memory_cost=64, time_cost=1)
"""Argon2id that costs nothing, for tests that are not about its cost."""


def build_caller(tenant_id: TenantId = ACME, *, name: str = "first", **changes: Any) -> TenantCaller:
    """A test key of a tenant with every scope."""
    values: dict[str, Any] = {
        "tenant_id": tenant_id,
        "key_id": KeyId(derive_id("key", tenant_id, name)),
        "livemode": False,
        "scopes": frozenset(Scope),
    }
    return TenantCaller(**values | changes)


class Keys:
    """Knows keys by their whole text; a revoked one is simply forgotten."""

    def __init__(self) -> None:
        self.known: dict[str, TenantCaller] = {
            TEST: build_caller(),
            LIVE: build_caller(name="live", livemode=True),
            FOREIGN: build_caller(GLOBEX),
            BARE: build_caller(name="bare", scopes=frozenset()),
        }
        self.failing: Exception | None = None
        self.addresses: list[str | None] = []

    async def __call__(self, presented: str, address: str | None) -> TenantCaller:
        """Return the key's caller."""
        self.addresses.append(address)
        if self.failing is not None:
            raise self.failing
        if presented not in self.known:
            raise Unauthenticated
        return self.known[presented]


class Memory:
    """Working state that forgets nothing."""

    def __init__(self) -> None:
        self._stored: dict[str, Any] = {}

    def get(self, key: str) -> Any:
        """Return what was put."""
        return self._stored.get(key)

    def put(self, key: str, value: Any) -> None:
        """Keep it."""
        self._stored[key] = value


class Silence:
    """Announces to nobody."""

    async def announce(self, tenant_id: TenantId, events: Any, audit_ids: Any) -> None:
        """Do nothing."""


class Unasked:
    """Engines that the sandbox never asks."""

    model_version = "none@00000000"
    pass_at = 0.4
    fail_at = 0.6

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the sandbox asked an engine to {name}")

    def __call__(self, *_: Any) -> Any:
        """Say that nobody should ask."""
        raise AssertionError("the sandbox asked for a document to be read")


class DirectGateway:
    """The use cases behind the front without a log between them; one key, one writer."""

    def __init__(self, handlers: Mapping[Topic, Callable[[Any], Awaitable[Event | None]]]) -> None:
        self._handlers = handlers
        self._turns: dict[str, asyncio.Lock] = {}
        self.asked: list[Any] = []
        self.failing: Exception | None = None

    async def request(
        self,
        topic: Topic,
        key: str,
        command: Command,
        answer_type: type[Answer],
        _timeout_s: float,
        /,
        *,
        once: str | None = None,  # noqa: ARG002 - a command is answered before its request is repeated
    ) -> Answer:
        """Carry the command out; its caller waits for it however slow the machine is."""
        self.asked.append(command)
        if self.failing is not None:
            raise self.failing
        async with self._turns.setdefault(key, asyncio.Lock()):
            result = await self._handlers[topic](command)
        assert isinstance(result, answer_type)
        return result


@dataclass(slots=True)
class Front:
    """A front that serves, and everything behind it."""

    url: str
    port: int
    app: web.Application
    runner: web.AppRunner
    client: aiohttp.ClientSession
    keys: Keys
    gateway: DirectGateway
    shelves: Shelves
    stores: Stores
    ports: FrontPorts
    settings: FrontSettings
    sending: "Sending"
    log: "Log"
    asked: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Method and path of each request by its id, for what the audit log says of it."""

    async def ask(self, method: str, path: str, key: str | None = TEST, **more: Any) -> "Response":
        """Send a request and read the whole answer."""
        headers = dict(more.pop("headers", {}))
        if key is not None:
            headers.setdefault("Authorization", f"Bearer {key}")
        async with self.client.request(method, self.url + path, headers=headers, **more) as response:
            self.asked[response.headers.get("X-Request-Id", "")] = (method, path)
            return Response(response.status, response.headers.copy(), await response.read())

    async def sign_in(
        self, role: Role = Role.OWNER, tenant_id: TenantId = ACME, *, satisfied: bool = True
    ) -> "SignedIn":
        """Make a member with a session, as if signed in with both factors or with the first alone."""
        moment, member_id = now(), UserId(encode_id("usr", uuid7()))
        session_id = ReviewerSessionId(encode_id("rs", uuid7()))
        value, lookup = draw_cookie(secrets.token_bytes, first_lookup(session_id))
        session = ReviewerSession(
            session_id=session_id, lookup=lookup,
            secret_hash=hash_cookie(value, PEPPER), tenant_id=tenant_id, reviewer_id=member_id,
            satisfied=satisfied, factor_at=moment if satisfied else None,
            created_at=moment, seen_at=moment, expires_at=moment + ABSOLUTE,
        )  # fmt: skip
        member = Reviewer(
            reviewer_id=member_id, tenant_id=tenant_id, email=f"{member_id}@acme.example", name="A Reviewer",
            role=role, created_at=moment, updated_at=moment,
            open_sessions=(OpenSession(session_id=session.session_id, lookup=lookup),),
        )  # fmt: skip
        records = (email_record(member, PEPPER), reviewer_record(member, 1), session_record(session, 1))
        await self.stores.journal.commit(Change(tenant_id, records))
        return SignedIn(self, value, member, session)

    async def submit(
        self, body: Any = None, key: str = TEST, idempotency_key: str | None = None
    ) -> "Response":
        """Submit a verification."""
        headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
        return await self.ask("POST", PATH, key, json=body or build_body(), headers=headers)


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A member with a session; writes come from the service's own pages."""

    front: Front
    cookie: str
    member: Reviewer
    session: ReviewerSession

    async def ask(self, method: str, path: str, **more: Any) -> "Response":
        """Send a request with the cookie."""
        own = {"Cookie": f"{COOKIE}={self.cookie}", "Origin": BASE_URL}
        headers = {**own, **dict(more.pop("headers", {}))}
        sent = {name: value for name, value in headers.items() if value is not None}
        return await self.front.ask(method, path, None, headers=sent, **more)

    async def change(self, **changes: Any) -> None:
        """Change the session as it is kept."""
        changed = self.session.model_copy(update=changes)
        await self.front.stores.journal.commit(Change(PLATFORM, (session_record(changed, 2),)))

    async def change_member(self, **changes: Any) -> None:
        """Change the member as it is kept."""
        changed = self.member.model_copy(update=changes)
        await self.front.stores.journal.commit(Change(self.member.tenant_id, (reviewer_record(changed, 2),)))


@dataclass(frozen=True, slots=True)
class Response:
    """An answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The problem's code."""
        return str(self.json["code"])

    @property
    def pointers(self) -> dict[str, str]:
        """Code by pointer of the problem's errors."""
        return {error.get("pointer", ""): error["code"] for error in self.json.get("errors", [])}


def draw_image(width: int = 200, height: int = 200, kind: str = "PNG", **save: Any) -> bytes:
    """A plain image."""
    out = io.BytesIO()
    Image.new("RGB", (width, height), (120, 130, 140)).save(out, kind, **save)
    return out.getvalue()


def encoded(image: bytes) -> str:
    """The image in base64."""
    return base64.b64encode(image).decode()


_PLAIN: Final = encoded(draw_image())


def build_body(subject_id: str = "sim:approved", **changes: Any) -> Json:
    """A body that is accepted; `document` changes are merged into the document."""
    document = {"image_base64": _PLAIN, **changes.pop("document", {})}
    return {"subject_id": subject_id, "document": document, "selfie_image_base64": _PLAIN, **changes}


def now() -> datetime:
    """The moment."""
    return datetime.now(UTC)


@asynccontextmanager
async def open_front(
    probes: Mapping[str, Probe] | None = None,
    max_connections: int = 200,
    knowing: Callable[[Stores], Authenticator] | None = None,
    clock: Callable[[], datetime] = now,
    passwords: Argon2Passwords | None = None,
    stores: Stores | None = None,
    limiter: RateLimiter | None = None,
    **settings: Any,
) -> AsyncIterator[Front]:
    """Serve a front on a free port; over stores in memory, which `shelves` shows, if none are given."""
    root_key = RootKey(b"r" * 32)
    chosen = FrontSettings(base_url=BASE_URL, cursor_keys=lambda: {"c" * 16: b"c" * 32}, **settings)
    shelves, keys, pool = Shelves(), Keys(), VisionPool(shared_forker(), 1)
    hashing = passwords or Argon2Passwords(CHEAP)
    stores = stores or open_memory_stores(root_key, shelves)
    sending = Sending()
    lists, folder = lists_over(stores), Path(gettempdir()) / f"veristream-{secrets.token_hex(8)}"
    gateway = sending.gateway = DirectGateway(_handlers(stores, pool, sending, clock, lists))
    people = _people(stores, hashing, clock)
    written, known = Log(), knowing(stores) if knowing else keys
    ports = _ports(stores, known, gateway, probes or {}, people, pool, written, lists, folder)
    app = create_app(ports, chosen, limiter)
    runner = make_runner(app, ports, chosen, max_connections, shutdown_timeout_s=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    client = aiohttp.ClientSession(auto_decompress=False)
    try:
        front = Front(
            f"http://{host}:{port}", port, app, runner, client, keys, gateway, shelves, stores, ports, chosen,
            sending, written,
        )  # fmt: skip
        yield front
        await sending.settle()
        assert not (said := unpromised(front)), f"written to the audit log, but in no `audits`: {said}"
    finally:
        await client.close()
        await runner.cleanup()
        await pool.aclose()
        await hashing.aclose()
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def _people(stores: Stores, passwords: Passwords, clock: Callable[[], datetime]) -> People:
    return People(
        records=stores.records,
        commit=CommitAndPublish(stores.journal, Silence()),
        vault=stores.vault,
        passwords=passwords,
        key=PEPPER,
        cookie_pepper=PEPPER,
        clock=clock,
        new_id=lambda prefix: encode_id(prefix, uuid7()),
    )


class Log:
    """Takes records that nobody answers."""

    def __init__(self) -> None:
        self.records: list[Outgoing] = []
        self.failing: Exception | None = None

    async def write(self, *records: Outgoing) -> None:
        """Keep them."""
        if self.failing is not None:
            raise self.failing
        self.records += records


class Sending:
    """What actors send each other, carried out beside who sent it."""

    def __init__(self) -> None:
        self.gateway: DirectGateway | None = None
        self._under_way: set[asyncio.Task[Any]] = set()

    async def hand(self, command: SubmitVerification) -> None:
        """Let an attempt be evaluated."""
        self._send(Topic.VERIFICATION_COMMANDS, command.verification_id, command)

    async def report_outcome(self, outcome: RecordOutcome) -> None:
        """Tell a session what became of its attempt."""
        self._send(Topic.SESSION_COMMANDS, outcome.session_id, outcome)

    def _send(self, topic: Topic, key: str, command: Command) -> None:
        assert self.gateway is not None
        task = asyncio.create_task(self.gateway.request(topic, key, command, Event, 20.0))
        self._under_way.add(task)

    async def settle(self) -> None:
        """Wait until nothing is under way any more; refusals are reported to the session."""
        while self._under_way:
            task = self._under_way.pop()
            with suppress(Refused):
                await task


SANDBOX_LIST: Final = sandbox_list(datetime.now(UTC))


SCREENING: Final = ListScreening(LoadedLists([SANDBOX_LIST]), now)
"""Live keys have no list; test keys the invented entries of the sandbox."""


def storage_over(stores: Stores) -> ListStorage:
    """Where lists are stored."""
    return ListStorage(stores.records, stores.journal, stores.vault)


def lists_over(stores: Stores) -> CurrentLists:
    """Live keys have the tenant's lists alone; test keys the invented entries of the sandbox as well."""
    return CurrentLists(LoadedLists([SANDBOX_LIST]), storage_over(stores))


def wallets_over(records: Records, lists: ListStates | None = None) -> TransactionWallets:
    """Wallets are compared with the lists, those of test keys with the sandbox's as well."""
    loaded = LoadedWalletLists(lists or LoadedLists(), now)
    return TransactionWallets(loaded, JudgeWallets(records, NodeNames(PEPPER)))


def changing_lists(stores: Stores, people: People, lists: CurrentLists) -> ChangeLists:
    """The use cases of lists; a change is known at once."""

    async def announce(changed: ListChanged) -> None:
        lists.forget(changed.tenant_id)

    named = ListsInUse(PublishedPolicies(stores.records))
    return ChangeLists(storage_over(stores), people.commit, people.clock, people.new_id, named, announce)


def publishing_lists(stores: Stores, people: People, folder: Path) -> PublishList:
    """Loads published lists into a folder, which is made by the first; no process serves them."""

    async def announce(_: ListChanged) -> None:
        pass

    async def serve() -> None:
        pass

    snapshots = ListSnapshots(folder)
    storage = storage_over(stores)
    return PublishList(snapshots, storage, people.commit, people.clock, people.new_id, announce, serve)


def keyed_features(
    stores: Stores,
    hashes: KeyedHashes,
    clock: Callable[[], datetime],
    table: WorkingState[bytes] | None = None,
) -> KeyedFeatures:
    """Features by keys whose actor is called without a log between."""
    actor = KeyedVelocity(stores, hashes, clock, table or Memory())

    async def ask(command: ComputeFeatures, _timeout_s: float) -> FeaturesComputed:
        answer = await actor(KeyedCommand(command))
        assert answer is not None
        return answer

    async def write(*records: Outgoing) -> None:
        for record in records:
            await actor(KeyedCommand.model_validate_json(record.value or b""))

    return KeyedFeatures(hashes, ask, write, clock)


def _handlers(
    stores: Stores, pool: VisionPool, sending: Sending, clock: Callable[[], datetime], lists: CurrentLists
) -> dict[Topic, Callable[[Any], Awaitable[Event | None]]]:
    unasked: Any = Unasked()
    engines = Engines(PooledImageDecoder(pool), unasked, unasked, unasked)
    evaluate = EvaluateVerification(
        stores, engines, VerificationPolicy(), now, Memory(), Silence(), send_outcome=sending.report_outcome
    )
    sessions = ChangeSession(stores, clock, Memory(), Silence(), sending.hand)
    catalogue = Catalogue(stores.records, stores.journal.commit, now)
    screening = ListScreening(lists, clock)
    cases = ChangeCase(
        stores, VerificationPolicy(), lambda tenant_id: read_settings(stores.records, tenant_id), now,
        Memory(), Silence(), CaseDispositions(stores, screening, HASHES),
    )  # fmt: skip
    policies = ChangePolicy(
        stores,
        CommitAndPublish(stores.journal, Silence()),
        lambda tenant_id: read_settings(stores.records, tenant_id),
        now,
        KnownListNames(storage_over(stores)),
    )
    flows = ChangeFlow(stores, catalogue, now, Memory(), Silence())
    dispositions = StoredDispositions(stores.records, HASHES, clock)
    screen = ScreenTransactions(
        stores, HASHES, StoredPolicies(stores.records),
        Checks(
            name_checks(screening, dispositions)
            | dict.fromkeys(CONTACT_CHECKS, ContactChecks(stores.records, HASHES))
        ),
        wallets_over(stores.records, lists),
        lambda tenant_id: read_settings(stores.records, tenant_id), clock, Memory(), Silence(),
        keyed_features(stores, HASHES, clock),
        lists=lists,
        suppressions=dispositions,
    )  # fmt: skip
    names = ScreenNamesOnce(stores, screening, dispositions, clock, Silence())
    dispose = CreateDispositions(
        stores, screening, HASHES, stores.journal.commit, clock,
        lambda tenant_id: read_settings(stores.records, tenant_id),
    )  # fmt: skip
    return {
        Topic.SCREENING_COMMANDS: lambda command: (
            names(command) if isinstance(command, ScreenNames) else dispose(command)
        ),
        Topic.TRANSACTION_COMMANDS: lambda command: screen(TransactionCommand(command)),
        Topic.VERIFICATION_COMMANDS: evaluate,
        Topic.REVIEW_COMMANDS: lambda command: cases(CaseCommand(command)),
        Topic.FLOW_COMMANDS: lambda command: flows(FlowCommand(command)),
        Topic.POLICY_COMMANDS: lambda command: policies(PolicyCommand(command)),
        Topic.SESSION_COMMANDS: lambda command: sessions(SessionCommand(command)),
    }


def build_admission(places: int = 64) -> Admission:
    """A queue in which nobody has to wait, unless there are few places."""
    return Admission(
        places=places,
        longest_wait_s=10.0,
        partition_of=partial(partition_of, Topic.VERIFICATION_COMMANDS),
        draw_id=lambda: VerificationId(encode_id("ver", uuid7())),
        now=time.monotonic,
    )


def _ports(
    stores: Stores,
    keys: Authenticator,
    gateway: DirectGateway,
    probes: Mapping[str, Probe],
    people: People,
    pool: VisionPool,
    written: Log,
    lists: CurrentLists,
    folder: Path,
) -> FrontPorts:
    registry, tokens = CollectorRegistry(), CaptureTokens(PEPPER, people.clock)
    images = PooledImageDecoder(pool)
    intake = Intake(
        request_reply=gateway,
        records=stores.records,
        evidence=stores.evidence,
        vault=stores.vault,
        images=images,
        clock=now,
        admission=build_admission(),
        answer_timeout_s=20.0,
    )
    return FrontPorts(
        authenticate=keys,
        recognise_reviewer=RecogniseReviewer(stores.records, stores.journal, PEPPER, people.clock),
        recognise_capture=tokens.recognise,
        request_reply=gateway,
        intake=intake,
        name_screenings=NameScreeningIntake(
            gateway, stores.records, stores.vault, HASHES, people.clock, 20.0
        ),
        dispositions=DispositionIntake(gateway, stores.records, stores.vault, HASHES, people.clock, 20.0),
        transactions=TransactionIntake(gateway, stores.records, stores.vault, HASHES, people.clock, 20.0),
        history=HistoryIntake(gateway, stores.records, people.commit, stores.vault, HASHES, people.clock),
        capture=build_capture_intake(stores.evidence, images, now),
        capture_tokens=tokens,
        stores=stores,
        commit=people.commit,
        people=people,
        keys=TenantKeys(stores.records, people.commit, PEPPER, people.clock, people.new_id),
        wallets=AssessWallets(
            stores, people.commit, LoadedWalletLists(lists, now), NodeNames(PEPPER), people.clock
        ),
        lists=changing_lists(stores, people, lists),
        publish_list=publishing_lists(stores, people, folder),
        hand=written.write,
        probes=probes,
        clock=now,
        fresh_uuid=uuid7,
        metrics=build_metrics(registry),
        registry=registry,
    )
