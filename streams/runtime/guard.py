"""Handle all errors of handlers: a record is answered, refused or dead-lettered before it is acknowledged."""

import asyncio
import math
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Generic, NoReturn, TypeVar

import structlog
from pydantic import BaseModel, ValidationError

from schemas.base import Event
from schemas.problems import Overloaded, ProblemCode, Refusal, Refused, StoreUnavailable
from streams.runtime.authentication import FAILED as UNAUTHENTIC
from streams.runtime.authentication import RecordKeys, Unauthentic, require_fresh
from streams.runtime.dead_letters import dead_letter
from streams.runtime.event_publisher import publishing_beside
from streams.runtime.message import Delivery
from streams.runtime.producer import LogWriter, Outgoing, RecordTooLarge
from streams.runtime.replays import Replays
from streams.runtime.replies import Reply, ReturnAddress, bytes_of, outgoing
from streams.runtime.tenant_scope import tenant_scope

log = structlog.get_logger(__name__)

Command = TypeVar("Command", bound=BaseModel)

Handle = Callable[[Command], Awaitable[Event | None]]
"""Execute a command; an event it returns is the answer, and a replay returns the first one."""

Idle = Callable[[Command], Awaitable[bool]]
"""Return whether executing the command would do nothing and answer nobody; False when nobody knows."""

FAILED: Final = Refusal(code=ProblemCode.STORE_FAILED, detail="The command could not be carried out.")
"""The answer to a command that was dead-lettered; the reason is for the operator."""

_FRAMES: Final = 8


@dataclass(frozen=True, slots=True)
class Contract(Generic[Command]):
    """What a topic carries, and the key every such record must have."""

    command: type[Command]
    key_of: Callable[[Command], str]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Retries of a record; delays in seconds."""

    first_s: float = 0.1
    longest_s: float = 5.0
    """Longest delay between retries while the store is unavailable, without a limit of retries."""
    failures: int = 3
    """Unexpected errors after which a record is dead-lettered."""


class Poison(Exception):
    """The record is not what its topic carries; the words name places and kinds, never values."""


class Guard:
    """Run a record's handler until it is answered, refused or written to the dead letters.

    A record that is not authentic for its place is dead-lettered before its value is parsed, and
    not answered; a copy of an earlier record is skipped.

    Records of a partition are admitted in their order; those of different keys may then be carried out side
    by side. When `admit` returned None, or `carry_out` returned, the record is settled and its offset may be
    acknowledged once everything before it is. Both raise only when they are themselves cancelled (a shutdown
    or a rebalance); then the record must not be acknowledged, and it comes again.
    """

    def __init__(
        self,
        writer: LogWriter,
        keys: RecordKeys,
        replays: Replays,
        *,
        now: Callable[[], datetime],
        uniform: Callable[[float, float], float],
        patience: RetryPolicy | None = None,
    ) -> None:
        self._writer = writer
        self.keys = keys
        self._replays = replays
        self._now = now
        self._uniform = uniform
        self._patience = patience or RetryPolicy()
        self.ends: Counter[str] = Counter()
        """Number of records by result: answered, refused, buried, forged or replayed; for metrics."""
        self.waited_at = -math.inf
        """When a record last waited to be tried again, by the loop's clock."""

    async def admit(self, delivery: Delivery, contract: Contract[Command]) -> Command | None:
        """Return the command to be carried out; None when the record is settled: forged, a copy or poison."""
        if not await self._is_genuine(delivery):
            return None
        try:
            return read(delivery, contract)
        except Poison as poison:
            await self._give_up(delivery, str(poison))
            return None

    async def passes_over(self, command: Command, is_idle: Idle[Command]) -> bool:
        """Return whether the record of an admitted command is settled, for there is nothing to do."""
        try:
            idle = await is_idle(command)
        except Exception:  # noqa: BLE001 - executing the command meets it again, and handles it
            return False
        self.ends["answered"] += idle
        return idle

    async def carry_out(self, delivery: Delivery, command: Command, handle: Handle[Command]) -> None:
        """Execute the command of an admitted record until the record is settled."""
        with tenant_scope(getattr(command, "tenant_id", None)), publishing_beside() as published:
            await self._attempt(delivery, command, handle)
            if published:
                await asyncio.wait(published)

    async def _is_genuine(self, delivery: Delivery) -> bool:
        """Return whether to execute the record; a forged or copied one is settled here."""
        try:
            stamp = self.keys.check(delivery)
            require_fresh(stamp, delivery.appended_ms)
        except Unauthentic as reason:
            self._replays.passed(delivery)
            await self._dead_letter(delivery, f"{UNAUTHENTIC}: {reason}")
            self.ends["forged"] += 1
            return False
        tries = 0
        while True:
            try:
                replayed = await self._replays.is_replay(delivery, stamp)
            except StoreUnavailable:
                tries += 1
                log.warning("guard.retry_scheduled", **place(delivery), error="the log", tries=tries)
                await self._pause(tries)
            else:
                break
        if replayed:
            log.warning("guard.replay_skipped", **place(delivery))
            self.ends["replayed"] += 1
        return not replayed

    async def _attempt(self, delivery: Delivery, command: Command, handle: Handle[Command]) -> None:
        failures = tries = 0
        while True:
            try:
                event = await handle(command)
            except Refused as refused:
                await self._reply(delivery, Reply(refusal=refused.refusal).to_bytes(), "refused")
                return
            except (StoreUnavailable, Overloaded) as error:
                log.warning("guard.retry_scheduled", **place(delivery), error=kind(error), tries=tries)
            except (Exception, asyncio.CancelledError) as error:
                if being_cancelled(error):
                    raise
                failures += 1
                log.error("guard.handler_failed", **place(delivery), **trace(error), failures=failures)  # noqa: TRY400
                if failures > self._patience.failures:
                    await self._give_up(delivery, f"handler raised {kind(error)}")
                    return
            else:
                await self._reply(delivery, bytes_of(event) if event else None, "answered")
                return
            tries += 1
            await self._pause(tries)

    async def _reply(self, delivery: Delivery, reply: bytes | None, end: str) -> None:
        address = ReturnAddress.read(delivery.headers)
        if reply and address and address.wanted(self._now()):
            await self._write(outgoing(address, reply))
        self.ends[end] += 1

    async def _give_up(self, delivery: Delivery, reason: str) -> None:
        await self._dead_letter(delivery, reason)
        await self._reply(delivery, Reply(refusal=FAILED).to_bytes(), "buried")

    async def _dead_letter(self, delivery: Delivery, reason: str) -> None:
        log.error("guard.record_dead_lettered", **place(delivery), reason=reason)
        try:
            await self._write(dead_letter(delivery, reason, self._now()))
        except RecordTooLarge:  # the broker takes less than it is asked to by default
            await self._write(dead_letter(delivery, reason, self._now(), max_bytes=0))

    async def _write(self, record: Outgoing) -> None:
        """Write until the log has it: what is not written down must not be acknowledged."""
        tries = 0
        while True:
            try:
                return await self._writer.write(record)
            except StoreUnavailable:
                tries += 1
                log.warning("guard.write_failed", topic=record.topic, tries=tries)
                await self._pause(tries)

    async def _pause(self, tries: int) -> None:
        longest = min(self._patience.first_s * 2 ** min(tries, 16), self._patience.longest_s)
        await asyncio.sleep(self._uniform(longest / 2, longest))
        self.waited_at = asyncio.get_running_loop().time()


def read(delivery: Delivery, contract: Contract[Command]) -> Command:
    """Return the command a record carries.

    Raises:
        Poison: It carries none, or one that belongs under another key.
    """
    if delivery.value is None:
        raise Poison("value missing")
    if delivery.key is None:
        raise Poison("key missing")
    try:
        command = contract.command.model_validate_json(delivery.value)
    except ValidationError as error:
        _refuse(error, contract.command)
    if contract.key_of(command).encode() != delivery.key:
        raise Poison("key differs from the command's")
    return command


def _refuse(error: ValidationError, model: type[BaseModel]) -> NoReturn:
    known = model.model_fields
    found = error.errors(include_url=False, include_context=False, include_input=False)
    places = (
        f"{item['loc'][0] if item['loc'] and item['loc'][0] in known else '*'}: {item['type']}"
        for item in found
    )
    raise Poison("; ".join(places)) from None


def being_cancelled(error: BaseException) -> bool:
    """Return whether the running task is being cancelled, not only an await inside a handler."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


def kind(error: BaseException) -> str:
    """Return the name of an error's type; its words may name a person."""
    return f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")


def trace(error: BaseException) -> dict[str, str | list[str]]:
    """Return an error's kind and the lines it went through, for a log line, without its words."""
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    return {"error": kind(error), "at": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]}


def place(delivery: Delivery) -> dict[str, str | int]:
    """Return where a record stands, for a log line."""
    return {"topic": delivery.topic, "partition": delivery.partition, "offset": delivery.offset}
