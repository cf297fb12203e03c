"""The bare library calls that a sandbox verification cannot do without, and nothing around them.

JSON and base64 of the body, two images sealed and kept, read back, opened and decoded, a record with its
places, audit row and event kept in one transaction, two more records in the log, the answer read back. No
validation, no credentials, no ids, no rules, no audit chain, no log lines, no metrics.
"""

import asyncio
import base64
import json
import os
import queue
import sqlite3
import threading
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from PIL import Image

EVENTS: Final = "echo.events"

RECORD: Final = json.dumps({"checks": [{"kind": "FACE_MATCH", "verdict": "PASSED"}] * 4, "text": "x" * 600})
"""About as long as a stored verification."""

ROWS: Final = 7
"""Record, four places it is listed under, audit row, event."""

Row = tuple[str, bytes]


class Store:
    """One SQLite connection on a thread of its own; whatever waits is done in one durable transaction."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[tuple[Sequence[Row], str | None, asyncio.Future[bytes | None]]]
        self._jobs = queue.SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    def keep(self, rows: Sequence[Row]) -> "asyncio.Future[bytes | None]":
        """Keep the rows; done when they are on the disk."""
        return self._ask(rows, None)

    def find(self, key: str) -> "asyncio.Future[bytes | None]":
        """Return what is kept under the key."""
        return self._ask((), key)

    def _ask(self, rows: Sequence[Row], key: str | None) -> "asyncio.Future[bytes | None]":
        future: asyncio.Future[bytes | None] = self._loop.create_future()
        self._jobs.put((rows, key, future))
        return future

    def _run(self) -> None:
        connection = sqlite3.connect(self._path, isolation_level=None)
        connection.execute("PRAGMA journal_mode = wal")
        connection.execute("PRAGMA synchronous = full")
        connection.execute("CREATE TABLE kept (key TEXT PRIMARY KEY, value BLOB)")
        while True:
            jobs = [self._jobs.get()]
            while not self._jobs.empty():
                jobs.append(self._jobs.get())
            rows = [row for job in jobs for row in job[0]]
            if rows:
                connection.execute("BEGIN")
                connection.executemany("INSERT OR IGNORE INTO kept VALUES (?, ?)", rows)
                connection.execute("COMMIT")
            found = [(future, _look(connection, key)) for _, key, future in jobs]
            self._loop.call_soon_threadsafe(_answer, found)


def _look(connection: sqlite3.Connection, key: str | None) -> bytes | None:
    if key is None:
        return None
    value: bytes = connection.execute("SELECT value FROM kept WHERE key = ?", (key,)).fetchone()[0]
    return value


def _answer(found: Sequence[tuple["asyncio.Future[bytes | None]", bytes | None]]) -> None:
    for future, value in found:
        if not future.done():
            future.set_result(value)


class LibraryCalls:
    """The calls, where the service makes them."""

    def __init__(self, path: Path, producer: Any) -> None:
        self._store = Store(path)
        self._producer = producer
        self._key = AESGCM(bytes(32))

    async def of_the_front(self, number: bytes, body: bytes) -> None:
        """Parse the body, decode the base64, seal and keep both images."""
        asked = json.loads(body)
        images = asked["document"]["image_base64"], asked["selfie_image_base64"]
        sealed = [self._seal(base64.b64decode(image)) for image in images]
        await self._store.keep([(f"{number.decode()} {index}", one) for index, one in enumerate(sealed)])

    def _seal(self, plain: bytes) -> bytes:
        nonce = os.urandom(12)
        return nonce + self._key.encrypt(nonce, plain, None)

    async def of_the_agent(self, number: bytes) -> None:
        """Read, open and decode both images, keep what is decided, and tell two topics."""
        for index in range(2):
            sealed = await self._store.find(f"{number.decode()} {index}") or b""
            opened = self._key.decrypt(sealed[:12], sealed[12:], None)
            with Image.open(BytesIO(opened)) as image:
                np.asarray(image.convert("RGB"))
        record = RECORD.encode()
        await self._store.keep([(f"{number.decode()} row {index}", record) for index in range(ROWS)])
        sent = [await self._producer.send(EVENTS, record, key=number) for _ in range(2)]
        await asyncio.gather(*sent)

    async def of_the_answer(self, number: bytes) -> bytes:
        """Read the record back and write the answer from it."""
        stored = await self._store.find(f"{number.decode()} row 0") or b""
        return json.dumps(json.loads(stored)).encode()
