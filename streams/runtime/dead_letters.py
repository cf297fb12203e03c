"""Write, list and redrive the dead letters."""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition  # type: ignore[import-untyped]  # ships no types
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]  # ships no types

from schemas.base import rfc3339
from schemas.problems import StoreUnavailable
from schemas.topics import Topic
from streams.runtime.authentication import (
    AUTHENTICATION,
    FAILED,
    RecordKeys,
    Unauthentic,
    without_authentication,
)
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.kafka_clients import started
from streams.runtime.message import Delivery
from streams.runtime.producer import MAX_RECORD_BYTES, LogWriter, Outgoing
from streams.runtime.replays import delivery_of
from streams.runtime.replies import DEADLINE, REPLY_TO

REDRIVE_GROUP: Final = "veristream-redrive"
"""The group whose committed offset says up to where dead letters were sent again."""

REDRIVEN: Final = "redriven"
"""Header of a record that was sent again: its offset among the dead letters."""

MAX_VALUE_BYTES: Final = MAX_RECORD_BYTES - 16_384
"""Bytes of a value that fit beside the headers of its dead letter."""

_NOT_AGAIN: Final = frozenset({REPLY_TO, DEADLINE, AUTHENTICATION})
"""Headers of a record that are not sent again: nobody waits any more, and it is signed anew."""

_OWN: Final = "dead-"
_REASON, _TOPIC, _PARTITION, _OFFSET = "dead-reason", "dead-topic", "dead-partition", "dead-offset"
_KEY, _AT, _CUT = "dead-key", "dead-at", "dead-cut"
_CODE: Final = "dead-auth"
"""What authenticated the record where it stood, or did not; its dead letter has a header of its own."""
_LONGEST_KEY: Final = 4_096
_HEADER_ROOM: Final = 8_192
"""Bytes for the headers a record came with."""
_REASON_LENGTH: Final = 500
_LONGEST_NUMBER: Final = 19
"""Digits; an offset has 63 bits."""
_READ_MS: Final = 500
LETTERS: Final = TopicPartition(Topic.DEAD_LETTERS, 0)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter: the record, its origin and the reason."""

    offset: int
    """Its place among the dead letters."""
    reason: str
    written_at: str
    delivery: Delivery
    cut: bool
    """Value or key was too long to be stored whole; such a record cannot be sent again."""
    redriven: bool
    record_id: bytes | None
    """The id of the dead letter; None: no worker of this deployment wrote it, and all of it may be forged."""

    def may_be_redriven(self, keys: RecordKeys) -> bool:
        """Return whether a worker wrote it, it is complete, and its record was authentic."""
        if self.record_id is None or self.cut or self.reason.startswith(FAILED):
            return False
        try:
            keys.check(self.delivery)
        except Unauthentic:
            return False
        return True


@dataclass(frozen=True, slots=True)
class Redriven:
    """The numbers of dead letters that were redriven and that were not."""

    sent: int
    withheld: int
    """Cut short, forged, or copied: they stay where they are, for good."""


def dead_letter(delivery: Delivery, reason: str, at: datetime, max_bytes: int = MAX_VALUE_BYTES) -> Outgoing:
    """Return the dead letter of a record: its raw bytes up to `max_bytes`, its origin and the reason."""
    value, key = delivery.value or b"", delivery.key
    own = {
        _REASON: reason[:_REASON_LENGTH].encode(),
        _TOPIC: delivery.topic.encode(),
        _PARTITION: str(delivery.partition).encode(),
        _OFFSET: str(delivery.offset).encode(),
        _AT: rfc3339(at).encode(),
    }
    if key is not None:
        own[_KEY] = key[:_LONGEST_KEY]
    if len(value) > max_bytes or len(key or b"") > _LONGEST_KEY:
        own[_CUT] = str(len(value)).encode()
    if AUTHENTICATION in delivery.headers:
        own[_CODE] = delivery.headers[AUTHENTICATION][:_LONGEST_KEY]
    headers = (*_carried(delivery), *own.items())
    return Outgoing(Topic.DEAD_LETTERS, delivery.topic.encode(), value[:max_bytes], headers, partition=0)


def _carried(delivery: Delivery) -> Iterator[tuple[str, bytes]]:
    room = _HEADER_ROOM
    for name, content in without_authentication(delivery.headers).items():
        room -= len(name.encode()) + len(content)
        if room >= 0 and not name.startswith(_OWN):
            yield name, content


def unearth(record: Delivery, keys: RecordKeys, *, redriven: bool) -> DeadLetter:
    """Parse a record of the topic; its content is authentic only with a `record_id`."""
    headers = without_authentication(record.headers)
    rest = {name: content for name, content in headers.items() if not name.startswith(_OWN)}
    if _CODE in headers:
        rest[AUTHENTICATION] = headers[_CODE]
    delivery = Delivery(
        topic=_text(headers, _TOPIC),
        partition=_number(headers, _PARTITION),
        offset=_number(headers, _OFFSET),
        key=headers.get(_KEY),
        value=record.value,
        headers=rest,
    )
    reason, at = _text(headers, _REASON), _text(headers, _AT)
    try:
        record_id = keys.check(record).id
    except Unauthentic as unauthentic:
        record_id, reason = None, f"{FAILED}: {unauthentic}: {reason}"
    return DeadLetter(
        record.offset, reason, at, delivery, cut=_CUT in headers, redriven=redriven, record_id=record_id
    )


def _text(headers: Mapping[str, bytes], name: str) -> str:
    """Return the text of a header; a forged dead letter may have any, or none."""
    return headers.get(name, b"?").decode(errors="replace")


def _number(headers: Mapping[str, bytes], name: str) -> int:
    text = _text(headers, name)
    return int(text) if text.isascii() and text.isdigit() and len(text) < _LONGEST_NUMBER else -1


async def list_dead_letters(access: LogAccess, keys: RecordKeys, limit: int) -> list[DeadLetter]:
    """Return at most `limit` dead letters, the newest of them, oldest first.

    Raises:
        StoreUnavailable: No broker answers.
    """
    async with _reader(access) as reader:
        end = (await reader.end_offsets([LETTERS]))[LETTERS]
        return [letter async for letter in _read(reader, keys, max(0, end - limit), end)]


async def redrive(
    access: LogAccess, keys: RecordKeys, writer: LogWriter, limit: int | None = None
) -> Redriven:
    """Send dead letters to where they came from, oldest first.

    Each is signed anew, so only authentic records are sent: a letter that was written for its
    authentication, that no worker of ours wrote, or that was copied among the dead letters, stays. Each is
    sent once: the committed offset of a group says how far it got. A crash between sending and committing
    sends one again, which its handler takes for the replay it is.

    Raises:
        StoreUnavailable: The broker is away; what was sent is remembered.
    """
    sent = withheld = 0
    seen: set[bytes] = set()
    async with _reader(access) as reader:
        start = await reader.committed(LETTERS) or 0
        end = (await reader.end_offsets([LETTERS]))[LETTERS]
        last = end if limit is None else min(end, start + limit)
        async for letter in _read(reader, keys, 0, last):  # from the first: a copy may lie anywhere after it
            copied = letter.record_id in seen
            if letter.record_id is not None:
                seen.add(letter.record_id)
            if letter.offset < start:
                continue
            if not copied and letter.may_be_redriven(keys):
                await writer.write(_again(letter))
                sent += 1
            else:
                withheld += 1
            await reader.commit({LETTERS: letter.offset + 1})
    return Redriven(sent, withheld)


def _again(letter: DeadLetter) -> Outgoing:
    headers = {n: c for n, c in letter.delivery.headers.items() if n not in _NOT_AGAIN}
    headers[REDRIVEN] = str(letter.offset).encode()
    delivery = letter.delivery
    return Outgoing(delivery.topic, delivery.key, delivery.value, tuple(headers.items()))


@asynccontextmanager
async def _reader(access: LogAccess) -> AsyncIterator[Any]:
    reader = AIOKafkaConsumer(
        **access.client(),
        group_id=REDRIVE_GROUP,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    try:
        async with started(reader):
            reader.assign([LETTERS])
            yield reader
    except (KafkaError, OSError) as error:
        raise StoreUnavailable("no broker answers") from error


async def _read(reader: Any, keys: RecordKeys, start: int, end: int) -> AsyncIterator[DeadLetter]:
    """Read from `start` up to `end`, the end offset at the time of the call."""
    redriven_to = await reader.committed(LETTERS) or 0
    if start >= end:
        return
    reader.seek(LETTERS, start)
    while True:
        batches = await reader.getmany(LETTERS, timeout_ms=_READ_MS)
        for record in batches.get(LETTERS, ()):
            if record.offset >= end:
                return
            redriven = record.offset < redriven_to
            yield unearth(delivery_of(record), keys, redriven=redriven)
        if await reader.position(LETTERS) >= end:
            return
