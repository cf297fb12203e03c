"""Receivers of many endpoints that fail at random, and check each request as a careful receiver would."""

import math
import random
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web
from standardwebhooks import WebhookVerificationError

from schemas.events import DecisionEvent
from tests.webhook_receiver import Hit, Receiver, hanging, resetting, saying

BEHAVIOURS: Final = {
    "takes": 60,
    "fails": 15,
    "resets": 9,
    "asks for time": 8,
    "hangs": 4,
    "sends elsewhere": 4,
}
"""What a receiver does with a request, and how often in a hundred."""


@dataclass(frozen=True, slots=True)
class Registered:
    """An endpoint as its receiver knows it."""

    tenant_id: str
    endpoint_id: str
    path: str
    event_types: tuple[str, ...]


@dataclass(slots=True)
class RandomReceivers:
    """What arrived at all endpoints, what was taken, and what should never have come."""

    chance: random.Random
    receiver: Receiver
    endpoints: dict[str, Registered] = field(default_factory=dict)
    """By path."""
    secrets: dict[str, str] = field(default_factory=dict)
    """The one secret each receiver verifies with, by path."""
    rotated: dict[str, tuple[float, str]] = field(default_factory=dict)
    """From when which other secret, for requests signed then or later, however late they arrive."""
    taken: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Ids of the events each path said 2xx to."""
    bodies: dict[tuple[str, str], set[bytes]] = field(default_factory=lambda: defaultdict(set))
    """By path and event id."""
    wrong: list[str] = field(default_factory=list)
    behaviours: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Answer for the receiver."""
        self.receiver.answer = self.answer

    def add(self, endpoint: Registered, secret: str) -> None:
        """Know an endpoint."""
        self.endpoints[endpoint.path] = endpoint
        self.secrets[endpoint.path] = secret

    def rotate(self, path: str, secret: str, after_s: float) -> None:
        """Verify with another secret what is signed so much later than now; until then both are valid."""
        self.rotated[path] = (time.time() + after_s, secret)

    async def answer(self, request: web.Request, hit: Hit) -> web.Response:
        """Check the request, then do as the behaviour is."""
        self._check(hit)
        behaviour = self.chance.choices(list(BEHAVIOURS), weights=list(BEHAVIOURS.values()))[0]
        self.behaviours[behaviour] += 1
        match behaviour:
            case "takes":
                self.taken[hit.path].add(hit.event_id)
                return await saying(self.chance.choice((200, 201, 204)))(request, hit)
            case "fails":
                return await saying(self.chance.choice((400, 404, 500, 503)))(request, hit)
            case "resets":
                return await resetting(request, hit)
            case "asks for time":
                return await saying(429, Retry_After="1")(request, hit)
            case "hangs":
                return await hanging(request, hit)
            case _:
                elsewhere = self.chance.choice(list(self.endpoints))
                return await saying(307, Location=self.receiver.url(elsewhere))(request, hit)

    def say(self, dead: int) -> None:
        """Say what a run came to."""
        taken = sum(map(len, self.taken.values()))
        counts = dict(self.behaviours)
        said = f"requests {sum(counts.values())} {counts}; taken {taken}, dead letters {dead}"
        print(f"webhooks: {said}")  # noqa: T201 - what a run came to

    def _check(self, hit: Hit) -> None:
        endpoint = self.endpoints.get(hit.path)
        if endpoint is None:
            self.wrong.append(f"{hit.path} is nobody's")
            return
        try:
            since, second = self.rotated.get(hit.path, (math.inf, ""))
            hit.verify(second if int(hit.headers["webhook-timestamp"]) >= since else self.secrets[hit.path])
        except WebhookVerificationError as error:
            self.wrong.append(f"{hit.path} {hit.event_id}: {error}")
        event = DecisionEvent.from_bytes(hit.body)
        if event.tenant_id != endpoint.tenant_id:
            self.wrong.append(f"{hit.path} got an event of {event.tenant_id}")
        if "*" not in endpoint.event_types and event.type not in endpoint.event_types:
            self.wrong.append(f"{hit.path} got {event.type}")
        if event.id != hit.event_id or event.livemode:
            self.wrong.append(f"{hit.path} got {hit.event_id} that is none of its")
        self.bodies[hit.path, hit.event_id].add(hit.body)
