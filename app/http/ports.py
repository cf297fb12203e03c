"""Dependencies and settings of the HTTP front."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from ipaddress import IPv4Network, IPv6Network
from typing import Final, Protocol
from uuid import UUID

from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from app.configuration.front import RateLimits
from app.http.cursors import CursorKeyVersions
from app.intake.capture import CaptureIntake, CaptureTokens
from app.intake.dispositions import DispositionIntake
from app.intake.history import HistoryIntake
from app.intake.name_screenings import NameScreeningIntake
from app.intake.transactions import TransactionIntake
from app.intake.verifications import Intake, RequestReply
from app.lists.publishing import PublishList
from app.observability.health_probes import Probe
from app.observability.metrics import Metrics
from schemas.access import TenantCaller
from schemas.people import CaptureCaller, ReviewerCaller
from streams.audit.commit import Commit
from streams.lists.handler import ChangeLists
from streams.ports.stores import Stores
from streams.reviewers.context import People
from streams.tenants.api_keys import TenantKeys
from streams.wallets.handler import AssessWallets
from streams.webhooks.ports import Hand
from streams.webhooks.urls import USUAL_PORTS


class Authenticator(Protocol):
    """Authenticates tenant keys."""

    async def __call__(self, presented: str, address: str | None) -> TenantCaller:
        """Return who presents the key from this address.

        Raises:
            Unauthenticated: The key is malformed, unknown, revoked, expired or used from elsewhere.
            StoreUnavailable: The store cannot be read for now.
        """
        ...


class CookieRecogniser(Protocol):
    """Authenticates reviewers' sessions."""

    async def __call__(self, cookie: str) -> ReviewerCaller:
        """Return who presents the cookie.

        Raises:
            Unauthenticated: The session is unknown, over, or its member suspended.
            StoreUnavailable: The store cannot be read for now.
        """
        ...


TokenRecogniser = Callable[[str], CaptureCaller]
"""Returns the session a capture token is good for; raises `Unauthenticated`."""


@dataclass(frozen=True, slots=True)
class FrontPorts:
    """Everything the front works with, opened by the composition root."""

    authenticate: Authenticator
    recognise_reviewer: CookieRecogniser
    recognise_capture: TokenRecogniser
    request_reply: RequestReply
    intake: Intake
    transactions: TransactionIntake
    name_screenings: NameScreeningIntake
    dispositions: DispositionIntake
    history: HistoryIntake
    capture: CaptureIntake
    capture_tokens: CaptureTokens
    stores: Stores
    commit: Commit
    """Commits a change of a use case that the front carries out itself, and publishes its events."""
    people: People
    """What sign-in, second factors, passwords and members work with."""
    keys: TenantKeys
    """The use cases about tenants' keys."""
    wallets: AssessWallets
    """The use case of wallet assessments."""
    lists: ChangeLists
    """The use cases of tenants' own lists."""
    publish_list: PublishList
    """The use case of the deployment's lists."""
    hand: Hand
    """Writes a record to the log that nobody answers."""
    probes: Mapping[str, Probe]
    """Each dependency by the name `/readyz` shows."""
    clock: Callable[[], datetime]
    """Now, with its zone."""
    fresh_uuid: Callable[[], UUID]
    """A new UUIDv7."""
    metrics: Metrics
    registry: CollectorRegistry
    """Where `metrics` and everything else of the process was defined."""


@dataclass(frozen=True, slots=True)
class FrontSettings:
    """Settings of the front."""

    base_url: str
    """How callers reach the front, without a trailing slash."""
    cursor_keys: CursorKeyVersions
    """Versions of the key that authenticates cursors; fronts of one deployment share them."""
    webhooks_allow_insecure: bool = False
    """Whether endpoints may be plain http and on this machine (development)."""
    webhooks_ports: frozenset[int] = USUAL_PORTS
    """Where endpoints may listen (S36)."""
    operator_token: SecretStr | None = None
    """None: the platform's routes do not exist (interface section 5)."""
    rate_limits: RateLimits | None = None
    """None: no limits (benchmarks)."""
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    """Peers whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed (S8, S49)."""
    connections_per_address: int = 128
    """Connections of one address at one time, an IPv6 one by its /64; trusted proxies have no such cap."""
    write_timeout_s: float = 30.0
    """A client that reads next to nothing of its answer for so long is cut off (S48)."""
    body_timeout_s: float = 30.0
    """A body that has not arrived by then is given up (S48)."""
    body_budget_bytes: int = 512 * 1024 * 1024
    """Bytes of bodies in memory; over it 503 OVERLOADED (S62)."""
    probe_timeout_s: float = 2.0
    """A probe that has not answered by then counts as down."""
    start_id: str | None = None
    """The audit row of this front's start, which `/readyz` names so that `doctor` finds it."""
    metrics_by_token: bool = False
    """Whether `/metrics` is served to who shows the operator's token; to others never (S66)."""


KEEPALIVE_S: Final = 30.0
"""Idle connections and half-sent headers end after it; aiohttp's own default is an hour."""

MAX_CONNECTIONS: Final = 1_000
"""Connections at one time; for one more the longest idle one of the address with the most is dropped, and it
is answered 503 and closed when none is idle."""
