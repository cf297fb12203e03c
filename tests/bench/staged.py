"""Runs a role of the service with counters around its clients, and samples its stages when reported.

`python -m tests.bench.staged FILE up --port 0` is `veristream up --port 0` but for this: SIGUSR1 begins a
measurement, SIGUSR2 ends it and writes FILE. Until then it costs one addition per statement and batch. The
service itself knows nothing of it.
"""

import json
import os
import re
import signal
import sqlite3
import sys
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from types import FrameType
from typing import Any, Final

from aiokafka.producer.message_accumulator import MessageBatch  # type: ignore[import-untyped]  # ships no types
from typing_extensions import override

from app.__main__ import main
from tests.bench.stages import stage_of

EVERY_S: Final = 0.002
"""Processor time of the process between two samples."""


class Sampler:
    """Shares out the processor time of every thread by what the thread was doing.

    The timer counts processor time, and its handler runs in the main thread between two bytecodes; so a
    long call into C counts for who made it. Other threads are seen where they last gave up the interpreter.
    """

    def __init__(self) -> None:
        self.spent_s: defaultdict[str, float] = defaultdict(float)
        self.places_s: defaultdict[str, float] = defaultdict(float)
        self._read_s: dict[int, float] = {}
        self._began_s = 0.0

    def begin(self) -> None:
        """Forget what was seen, and sample from now on."""
        self.spent_s.clear()
        self.places_s.clear()
        self._began_s = time.process_time()
        self._read_s = {ident: _cpu_s(ident) for ident in sys._current_frames()}
        signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, EVERY_S)

    def end(self) -> float:
        """Stop sampling; return the processor seconds of the process since the beginning."""
        signal.signal(signal.SIGPROF, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        return time.process_time() - self._began_s

    def _sample(self, _: int, interrupted: FrameType | None) -> None:
        frames: dict[int, FrameType | None] = {**sys._current_frames()}
        frames[threading.main_thread().ident or 0] = interrupted
        for ident, frame in frames.items():
            now_s = _cpu_s(ident)
            spent_s = now_s - self._read_s.get(ident, 0.0)
            self._read_s[ident] = now_s
            if spent_s > 0.0:
                stage = stage_of(frame)
                self.spent_s[stage] += spent_s
                self.places_s[f"{stage}: {_place(frame)}"] += spent_s
        # Only now, for a sample may take as long on a slow machine.
        signal.setitimer(signal.ITIMER_PROF, EVERY_S)


def _cpu_s(ident: int) -> float:
    return time.clock_gettime(time.pthread_getcpuclockid(ident))


def _place(frame: FrameType | None) -> str:
    if frame is None:
        return "?"
    return f"{'/'.join(Path(frame.f_code.co_filename).parts[-2:])} {frame.f_code.co_qualname}"


class CountedConnection(sqlite3.Connection):
    """Counts statements by their first words, and rows of those that take many."""

    @override
    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        COUNTS[f"sqlite {_verb(sql)}"] += 1
        return super().execute(sql, *parameters)

    @override
    def executemany(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        COUNTS[f"sqlite {_verb(sql)}"] += 1
        return super().executemany(sql, *parameters)


_TABLE: Final = re.compile(r"(?:FROM|INTO|UPDATE)\s+([\w.]+)")

COUNTS: Counter[str] = Counter()
"""What was done since the beginning."""


def _verb(statement: str) -> str:
    return statement.split(None, 1)[0].upper()


def _table(statement: str) -> str:
    """Return the table a CQL statement is about."""
    found = _TABLE.search(statement)
    return found[1] if found else "?"


def _count_sqlite() -> None:
    module: Any = sqlite3  # its own attribute is replaced
    plain = module.connect

    def connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = plain(*arguments, **{"factory": CountedConnection, **options})
        return connection

    module.connect = connect


def _count_batches() -> None:
    plain = MessageBatch.drain_ready

    def drain_ready(batch: Any) -> None:
        COUNTS[f"batches {batch.tp.topic}"] += 1
        COUNTS[f"records {batch.tp.topic}"] += batch.record_count
        plain(batch)

    MessageBatch.drain_ready = drain_ready


def _count_cassandra() -> None:
    from app.adapters.cassandra.requests import Requests  # noqa: PLC0415 - seconds, where it is used

    requests: Any = Requests  # its own method is replaced
    plain = requests.ask

    async def ask(own: Any, query: Any, *arguments: Any, **options: Any) -> Any:
        text = getattr(getattr(query, "prepared_statement", query), "query_string", None)
        if text is None:  # a batch
            COUNTS["cassandra batch"] += 1
            COUNTS["cassandra statements of batches"] += len(query.statements)
        else:
            COUNTS[f"cassandra {'conditional ' if ' IF ' in text else ''}{_verb(text)} {_table(text)}"] += 1
        return await plain(own, query, *arguments, **options)

    requests.ask = ask


def measure_on_demand(report: Path) -> None:
    """Begin at SIGUSR1; at SIGUSR2 end and write the report."""
    sampler = Sampler()

    def begin(*_: object) -> None:
        COUNTS.clear()
        sampler.begin()

    def end(*_: object) -> None:
        result = {
            "process_s": sampler.end(),
            "stages_s": sampler.spent_s,
            "places_s": sampler.places_s,
            "counts": COUNTS,
        }
        half = report.with_suffix(".half")
        half.write_text(json.dumps(result))
        half.rename(report)

    signal.signal(signal.SIGUSR1, begin)
    signal.signal(signal.SIGUSR2, end)


if __name__ == "__main__":
    _count_sqlite()
    _count_batches()
    if "SERVICE_CASSANDRA_CONTACT_POINTS" in os.environ:
        _count_cassandra()
    measure_on_demand(Path(sys.argv.pop(1)))
    main()
