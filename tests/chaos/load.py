"""The load: many callers at once, each command under its own key, every answer remembered."""

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from aiohttp import ClientError, ClientSession, ClientTimeout

from tests.journeys.service import small_request

AT_ONCE: Final = 48
LATER: Final = frozenset({"DECISION_PENDING", "STORE_UNAVAILABLE", "STORE_FAILED", "OVERLOADED"})
"""What may be answered while something is away; the same key finds the decision later."""

CUT: Final = (0, "cut")
"""What stands for an answer that never came."""

Answer = tuple[int, dict[str, Any]]


def open_client() -> ClientSession:
    """Return a client that waits long enough for any answer."""
    return ClientSession(timeout=ClientTimeout(total=300))


class Load:
    """Posts every command once under its own key, and remembers each answer."""

    def __init__(
        self,
        client: ClientSession,
        url: str,
        key: str,
        commands: int = 0,
        *,
        name: str = "chaos",
        scenario: str = "approved",
    ) -> None:
        self.client, self.url, self.key = client, url, key
        self.commands, self.name, self.scenario = commands, name, scenario
        self.answers: dict[int, Answer] = {}
        self.begun: set[int] = set()
        """Commands whose first request was sent, answered or not."""
        self.answered = asyncio.Condition()

    async def post(self, number: int) -> Answer:
        """Post one command; ClientError when no answer comes."""
        headers = {
            "Authorization": f"Bearer {self.key}",
            "Idempotency-Key": f"{self.name}-{number}",
        }
        body = small_request(self.subject(number))
        async with self.client.post(f"{self.url}/v1/verifications", json=body, headers=headers) as answer:
            return answer.status, await answer.json(content_type=None)

    def subject(self, number: int) -> str:
        """The subject of a command, which asks the sandbox for the load's scenario."""
        return f"sim:{self.scenario}@{self.name}-{number}"

    async def post_and_remember(self, number: int) -> None:
        """Post one command and keep its answer, the lack of one as well."""
        self.begun.add(number)
        try:
            answer = await self.post(number)
        except (ClientError, TimeoutError):
            answer = (CUT[0], {"code": CUT[1]})
        async with self.answered:
            self.answers[number] = answer
            self.answered.notify_all()

    async def post_all(self, at_once: int = AT_ONCE) -> None:
        """Post every command, `at_once` at a time."""
        numbers = iter(range(self.commands))

        async def one() -> None:
            for number in numbers:
                await self.post_and_remember(number)

        await asyncio.gather(*(one() for _ in range(at_once)))

    async def keep_posting(self, enough: asyncio.Event, at_once: int = AT_ONCE) -> None:
        """Post one command after the other until it is enough; `commands` says afterwards how many."""
        numbers = itertools.count()

        async def one() -> None:
            while not enough.is_set():
                await self.post_and_remember(next(numbers))

        await asyncio.gather(*(one() for _ in range(at_once)))
        self.commands = len(self.answers)

    async def until(self, share: float) -> None:
        """Return once this share of the commands has been answered."""
        async with self.answered:
            await self.answered.wait_for(lambda: len(self.answers) >= share * self.commands)

    @property
    def outcomes(self) -> Counter[tuple[int, str | None]]:
        """How many first answers had which status and code."""
        return Counter((status, body.get("code")) for status, body in self.answers.values())

    @property
    def patient(self) -> bool:
        """Return whether every first answer was the decision, a cut connection, or to ask again later.

        On a machine with too much to do a decision may take longer than a request waits.
        """
        return all(
            status in {200, 201, CUT[0]} or (status == 503 and code == "DECISION_PENDING")
            for status, code in self.outcomes
        )

    async def settle(self, number: int, within_s: float = 240) -> Answer:
        """Send a command again until it is answered; the service has this long to come back."""
        async with asyncio.timeout(within_s):
            while True:
                try:
                    status, body = await self.post(number)
                except (ClientError, TimeoutError):
                    status, body = CUT[0], {}
                if status in {200, 201}:
                    return status, body
                assert status == CUT[0] or (status in {500, 503} and body.get("code") in LATER), body
                await asyncio.sleep(0.3)

    async def settle_all(self, numbers: Iterable[int] | None = None) -> dict[int, str]:
        """Settle every command and return the verification id of each; the first answers must agree."""
        asked = iter(range(self.commands) if numbers is None else numbers)
        settled: dict[int, str] = {}

        async def one() -> None:
            for number in asked:
                settled[number] = (await self.settle(number))[1]["verification_id"]

        await asyncio.gather(*(one() for _ in range(AT_ONCE)))
        earlier = {n: b["verification_id"] for n, (s, b) in self.answers.items() if s in {200, 201}}
        differing = [n for n, name in earlier.items() if n in settled and settled[n] != name]
        assert not differing, f"answered under another id than first: {differing}"
        assert len(set(settled.values())) == len(settled), "two commands share a record"
        return settled

    async def audit_rows(self, action: str = "verification.evaluated") -> Counter[str]:
        """Count the audit rows of each subject with this action, by walking the whole log."""
        found: Counter[str] = Counter()
        parameters = {"limit": "200", "action": action}
        headers = {"Authorization": f"Bearer {self.key}"}
        while True:
            async with self.client.get(f"{self.url}/v1/audit", params=parameters, headers=headers) as answer:
                page = json.loads(await answer.text())
            found.update(row["subject_id"] for row in page["events"])
            if page["next_cursor"] is None:
                return found
            parameters["cursor"] = page["next_cursor"]
