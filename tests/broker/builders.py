"""Valid record batches and a client that speaks single requests, for what the real clients never send."""

import asyncio
import io
import struct
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Self

from kio.index import load_response_from_request
from kio.records.schema import NewRecordBatch, Record
from kio.records.writers import write_new_batch
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import TZAwareMicros, i8, i16, i32, i64

T0_S = 1_700_000_000
"""When the records of these tests were made, in seconds since 1970."""

Pair = tuple[bytes | None, bytes | None]


def batch(
    pairs: Sequence[Pair],
    *,
    at_s: int = T0_S,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    attributes: int = 0,
) -> bytes:
    """Return one uncompressed batch of (key, value) records, one second apart."""
    records = tuple(
        Record(
            attributes=i8(0),
            timestamp=TZAwareMicros.parse(datetime.fromtimestamp(at_s + number, UTC)),
            offset=i64(number),
            key=key,
            value=value,
            headers=(),
        )
        for number, (key, value) in enumerate(pairs)
    )
    buffer = io.BytesIO()
    write_new_batch(
        buffer,
        NewRecordBatch(
            producer_id=i64(producer_id),
            producer_epoch=i16(epoch),
            base_sequence=i32(sequence),
            records=records,
            attributes=i16(attributes),
        ),
    )
    return buffer.getvalue()


def one(value: bytes, key: bytes | None = None, *, at_s: int = T0_S) -> bytes:
    """Return a batch of one record."""
    return batch([(key, value)], at_s=at_s)


class Talk:
    """A connection on which any request of any version can be sent and its answer read."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self._correlation_id = 0

    @classmethod
    async def to(cls, port: int) -> Self:
        """Connect."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()

    async def ask(self, request: Any) -> Any:
        """Send a request of kio's and return the answer of the same version."""
        self.send(request)
        return await self.receive(request)

    def send(self, request: Any) -> None:
        """Send without waiting for the answer."""
        self._correlation_id += 1
        frame = io.BytesIO()
        header = request.__header_schema__
        entity_writer(header)(
            frame,
            header(
                request_api_key=request.__api_key__,
                request_api_version=request.__version__,
                correlation_id=i32(self._correlation_id),
                client_id="talk",
            ),
        )
        entity_writer(type(request))(frame, request)
        self.writer.write(struct.pack(">i", len(frame.getvalue())) + frame.getvalue())

    async def receive(self, request: Any) -> Any:
        """Read the next answer, which is to `request`; nothing may be left over."""
        answer = load_response_from_request(request)
        (length,) = struct.unpack(">i", await asyncio.wait_for(self._reader.readexactly(4), 60))
        frame = await asyncio.wait_for(self._reader.readexactly(length), 60)
        _, position = entity_reader(answer.__header_schema__)(frame, 0)
        value, size = entity_reader(answer)(frame, position)
        assert position + size == length
        return value

    async def closed(self) -> bool:
        """Wait until the broker closes the connection."""
        try:
            return await asyncio.wait_for(self._reader.read(), 60) == b""
        except ConnectionResetError:
            return True
