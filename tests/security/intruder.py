"""Somebody who reached the broker without a key of the deployment, and writes whatever bytes they like."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]  # ships no types

from app.adapters.security.crypto import RootKey
from streams.runtime.authentication import AUTHENTICATION, FRESH_MS, RecordKeys, without_authentication
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.message import Delivery


@dataclass(frozen=True, slots=True)
class Intruder:
    """Writes records past every writer of ours."""

    producer: Any

    async def write(self, *records: Delivery) -> list[int]:
        """Put records where they say they stand, as they are; return the offsets they got."""
        sent = [
            await self.producer.send(
                one.topic,
                key=one.key,
                value=one.value,
                partition=one.partition,
                headers=list(one.headers.items()),
            )
            for one in records
        ]
        return [(await each).offset for each in sent]


@asynccontextmanager
async def open_intruder(access: LogAccess) -> AsyncIterator[Intruder]:
    """Reach the broker."""
    producer = AIOKafkaProducer(**access.client(), acks="all")
    await producer.start()
    try:
        yield Intruder(producer)
    finally:
        await producer.stop()


def forgeries(genuine: Delivery, other: Delivery, keys: RecordKeys, partitions: int) -> list[Delivery]:
    """What can be made of a genuine record without the key, and one its writer signed long ago."""
    code = genuine.headers[AUTHENTICATION]
    plain, value, key = without_authentication(genuine.headers), genuine.value or b"", genuine.key or b""
    strange = RecordKeys(RootKey(os.urandom(32)).derive)
    appended_ms = genuine.appended_ms or 0
    elsewhere = b"idv.replies.v1/%d" % (genuine.headers.get("reply-to") == b"idv.replies.v1/0")
    return [
        replace(genuine, headers=plain),
        coded(genuine, os.urandom(len(code))),
        coded(genuine, code[:-1]),
        coded(genuine, b""),
        coded(genuine, b"\x02" + code[1:]),
        coded(genuine, code[:17] + os.urandom(8) + code[25:]),
        coded(genuine, os.urandom(1) + code[1:16] + bytes([code[16] ^ 1]) + code[17:]),
        signed_by(strange, genuine, appended_ms),
        signed_by(keys, genuine, appended_ms - FRESH_MS - 10_000),
        replace(genuine, value=value[:-1] + b" }"),
        replace(genuine, value=value + b" "),
        replace(genuine, value=None),
        replace(genuine, key=key + b"x"),
        replace(genuine, headers={**genuine.headers, "reply-to": elsewhere}),
        replace(genuine, headers={**genuine.headers, "more": b""}),
        replace(genuine, partition=(genuine.partition + 1) % partitions),
        replace(genuine, topic=other.topic, partition=other.partition),
        replace(genuine, key=other.key, value=other.value),
    ]


def coded(record: Delivery, code: bytes) -> Delivery:
    """The record with another code."""
    return replace(record, headers={**record.headers, AUTHENTICATION: code})


def signed_by(keys: RecordKeys, record: Delivery, now_ms: int) -> Delivery:
    """The record signed with these keys at that time."""
    headers: Mapping[str, bytes] = without_authentication(record.headers)
    name, code = keys.sign(record.topic, record.partition, record.key, record.value, headers.items(), now_ms)
    return replace(record, headers={**headers, name: code})
