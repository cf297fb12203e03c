"""Entry point of the names process, `python -m app.names.server FD PARENT`: index names, answer searches.

It opens no file and no connection, and ends when its socket closes. A second thread builds indexes, so that
the others are searched meanwhile.
"""

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Final

import msgspec

from app.names import messages
from app.names.messages import (
    LENGTH_BYTES,
    AddEntries,
    Answer,
    Done,
    DropIndex,
    EntryDigest,
    Failed,
    FindEntry,
    FinishIndex,
    Ping,
    Request,
    Search,
)
from app.vision import sandbox
from schemas.screenings import ScreeningTarget
from streams.lists.listed_names import EntriesInvalid, read_entry
from streams.names.index import IndexBuild, NameIndex
from streams.names.matching import find_matches

_SWITCH_S: Final = 0.001
"""How long a build may go on before a search gets its turn; five times as long by default."""

_RECEIVED: Final = msgspec.msgpack.Decoder(Request)


def main(descriptor: int, parent: int) -> None:
    """Serve a socket until it closes."""
    for ignored in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)  # a group's signal; the worker drains and closes the socket
    sandbox.end_with(parent)
    sys.setswitchinterval(_SWITCH_S)
    Server(socket.socket(fileno=descriptor)).serve()
    os._exit(0)  # without waiting for a build


class Server:
    """Holds indexes by their keys and answers requests about them."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._sending = threading.Lock()
        self._indexes: dict[int, NameIndex] = {}
        self._building: dict[int, IndexBuild] = {}
        self._to_build: SimpleQueue[AddEntries | FinishIndex | DropIndex] = SimpleQueue()

    def serve(self) -> None:
        """Answer until the other side closes."""
        threading.Thread(target=self._build, name="names-build", daemon=True).start()
        for raw in self._messages():
            request = _RECEIVED.decode(raw)
            if isinstance(request, AddEntries | FinishIndex | DropIndex):
                self._to_build.put(request)
            else:
                self._send(self._answer(request))

    def _messages(self) -> Iterator[bytes]:
        with self._link.makefile("rb") as file:
            while len(head := file.read(LENGTH_BYTES)) == LENGTH_BYTES:
                yield file.read(int.from_bytes(head))

    def _send(self, answer: Answer) -> None:
        try:
            packed = messages.framed(answer)
        except messages.TooLong:
            packed = messages.framed(Failed(answer.number, invalid=False))
        with self._sending:
            self._link.sendall(packed)

    def _answer(self, request: Ping | Search | FindEntry) -> Answer:
        try:
            return self._looked_up(request)
        except Exception:  # noqa: BLE001 - whatever a name brings about is an answer, and names stay out of logs
            return Failed(request.number, invalid=False)

    def _looked_up(self, request: Ping | Search | FindEntry) -> Answer:
        match request:
            case Ping():
                return Done(request.number)
            case Search():
                target, index = ScreeningTarget.from_bytes(request.target), self._indexes[request.key]
                found = find_matches(target, index, request.list_name, request.thresholds())
                return messages.matches(request.number, found)
            case FindEntry():
                entry = self._indexes[request.key].find(request.entity_id)
                return EntryDigest(request.number, None if entry is None else entry.digest())

    def _build(self) -> None:
        """Carry out what changes indexes, in the order it came."""
        while True:
            request = self._to_build.get()
            if isinstance(request, DropIndex):
                self._building.pop(request.key, None)
                self._indexes.pop(request.key, None)
                sandbox.give_back_memory()
                continue
            try:
                answer: Answer = self._added(request)
            except EntriesInvalid:
                answer = Failed(request.number, invalid=True)
            except Exception:  # noqa: BLE001 - as in `_answer`
                answer = Failed(request.number, invalid=False)
            self._send(answer)

    def _added(self, request: AddEntries | FinishIndex) -> Answer:
        build = self._building.setdefault(request.key, IndexBuild())
        if isinstance(request, AddEntries):
            for line in request.lines:
                build.add(read_entry(line))
            return Done(request.number)
        index = self._indexes[request.key] = NameIndex(build=self._building.pop(request.key))
        del build
        sandbox.give_back_memory()
        return Done(request.number, entries=len(index))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
