"""Kill retention, erasure, rotation and restore at every write: `python -m tests.chaos.upkeep_kills`.

Each is run on a copy of one data folder, killed at the nth write, and run again to its end. Then the folder
must hold what it holds after a run that nobody killed, and every piece of evidence must open to the same
bytes.
"""

import argparse
import asyncio
import hashlib
import json
import multiprocessing
import os
import shutil
import signal
import sqlite3
import sys
import tempfile
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing import forkserver
from pathlib import Path
from typing import Any, Final

from app.adapters.files.data_dir import DATABASE_FILE, ROOT_KEY_FILE
from app.adapters.security.crypto import load_root_key
from app.backup.taking import take_backup
from app.composition.stores import open_deployment, open_existing
from app.root_keys.commands import rotate
from app.root_keys.commands import status as rotation_status
from app.settings import Settings
from schemas.ids import PLATFORM, EvidenceId, TenantId
from tests.bench.year_traffic import YearTraffic
from tests.builders import NOW
from tests.chaos.upkeep_jobs import run_upkeep
from tests.handlers.test_erasure import ErasureStage
from tests.journeys.service import environment
from tests.prefork import PRELOADED, fork

UNITS: Final = 2
IMAGE: Final = 70_000
"""Bytes of an image: large enough for a file of its own."""

PATIENCE_S: Final = 180.0

EXPIRE, ERASE, ROTATE, REMOVE, RESTORE = KINDS = ("expire", "erase", "rotate", "remove", "restore")
"""Remove: the root key that a rotation replaced."""

_DUMPED: Final = {
    "records": "SELECT tenant, kind, id, version, indexes, hex(body) FROM records WHERE tenant <> ?",
    "places": "SELECT tenant, value, name, kind, created_at, id FROM record_places WHERE tenant <> ?",
    "events": "SELECT tenant, id FROM events WHERE tenant <> ?",
    "audit": "SELECT tenant, event_id FROM audit WHERE tenant <> ?",
    "platform": "SELECT kind, count(*) FROM records WHERE tenant = ? AND kind <> 'act' GROUP BY kind",
    "acts": "SELECT action, count(*) FROM audit WHERE tenant = ? GROUP BY action",
    "erasures": "SELECT tenant, subject_id FROM erasures WHERE tenant <> ?",
    "keys": "SELECT tenant, subject_id, length(wrapped) FROM subject_keys WHERE tenant <> ?",
    "evidence": "SELECT tenant, evidence_id FROM evidence WHERE tenant <> ?",
}

_SECRET: Final = (
    "SELECT wrapped FROM subject_keys",
    "SELECT sealed FROM evidence WHERE sealed IS NOT NULL",
)

SHORTEST: Final = 16
"""Bytes of a secret; what is shorter says that one was destroyed."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended."""

    status: int
    writes: int
    """Those it counted; 0 when it was killed."""
    said: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """A data folder with traffic and an approved erasure, the same with a new root key, and a backup."""

    data: Path
    rotated: Path
    backup: Path


async def prepare(folder: Path) -> Prepared:
    """Make the folder and its backup."""
    made = Prepared(folder / "prepared", folder / "rotated", folder / "backup")
    settings = Settings(data_dir=made.data)
    async with open_deployment(settings) as deployment:
        traffic, stage = YearTraffic(deployment.stores, IMAGE), ErasureStage()
        await traffic.furnish(NOW)
        for unit in range(UNITS):
            await traffic.play(NOW + timedelta(days=unit), str(unit))
        stage.stores = deployment.stores
        await stage.submit()
        await stage.request()
    root_key = await asyncio.to_thread(load_root_key, None, made.data / ROOT_KEY_FILE)
    settings.broker_dir.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(1) as pinning:
        await asyncio.to_thread(take_backup, settings, made.backup, root_key, lambda _: None, pinning)
    await asyncio.to_thread(shutil.copytree, made.data, made.rotated)
    await rotate(Settings(data_dir=made.rotated))
    return made


def source_of(prepared: Prepared, kind: str) -> Path:
    """Return the folder that a run begins with, or that its backup was taken of."""
    return prepared.rotated if kind == REMOVE else prepared.data


async def _copy(prepared: Prepared, kind: str, folder: Path) -> Sequence[str]:
    """Make the folder that a run works on; return what the process is to do there."""
    if kind == RESTORE:
        await asyncio.to_thread(folder.mkdir, mode=0o700)
        shutil.copy2(prepared.data / ROOT_KEY_FILE, folder)
        return ("restore", str(prepared.backup), "--data-dir", str(folder))
    await asyncio.to_thread(shutil.copytree, source_of(prepared, kind), folder)
    return ("root-key", kind, "--data-dir", str(folder)) if kind in {ROTATE, REMOVE} else (kind,)


async def _run(folder: Path, nth: int, job: Sequence[str]) -> Ended:
    log = folder.with_name(f"{folder.name}.log")
    process = await fork(run_upkeep, [str(folder), str(nth), *job], environment(), log, vision=False)
    try:
        async with asyncio.timeout(PATIENCE_S):
            said = (await process.stdout.read()).decode()
            status = await process.wait()
    finally:
        process.kill()
    counted = said.rpartition("\nwrites ")[2].strip()
    return Ended(status, int(counted) if counted.isdigit() else 0, said + log.read_text(encoding="utf-8"))


async def run_whole(prepared: Prepared, kind: str, folder: Path) -> tuple[int, dict[str, Any]]:
    """Run a job to its end; return how many writes it made, and what the folder holds then."""
    job = await _copy(prepared, kind, folder)
    ended = await _run(folder, 0, job)
    assert ended.status == 0, ended.said
    return ended.writes, await contents_of(kind, folder, source_of(prepared, kind))


async def run_killed(prepared: Prepared, kind: str, folder: Path, nth: int) -> tuple[bool, dict[str, Any]]:
    """Run a job that is killed at the nth write, and again; return whether it was, and what is there then."""
    job = await _copy(prepared, kind, folder)
    first = await _run(folder, nth, job)
    assert first.status in {0, -signal.SIGKILL}, first.said
    killed = first.status != 0
    if killed and not await _is_over(kind, folder):
        again = await _run(folder, 0, job)
        assert again.status == 0, again.said
    return killed, await contents_of(kind, folder, source_of(prepared, kind))


async def _is_over(kind: str, folder: Path) -> bool:
    """Tell whether the command would be refused, because nothing is left for it to do."""
    over = {ROTATE: "finished", REMOVE: "none"}.get(kind)
    if over is None:
        return False
    shown = await rotation_status(Settings(data_dir=folder))
    return str(shown["rotation"]).startswith(over)


async def contents_of(kind: str, folder: Path, source: Path) -> dict[str, Any]:
    """Return what a folder holds, so that two of the same content are equal.

    The traces are files that still hold a key or a picture which the source held and the folder does not.
    """
    with closing(sqlite3.connect(folder / DATABASE_FILE)) as connection:
        content: dict[str, Any] = {
            name: sorted(connection.execute(statement, (PLATFORM,)).fetchall())
            for name, statement in _DUMPED.items()
        }
    settings = Settings(data_dir=folder)
    async with open_existing(settings) as deployment:
        for tenant, evidence_id in content["evidence"]:
            image = await deployment.stores.evidence.get(TenantId(tenant), EvidenceId(evidence_id))
            content[f"content of {evidence_id}"] = hashlib.sha256(image).hexdigest()
    if kind in {ROTATE, REMOVE}:
        shown = await rotation_status(settings)
        counts = shown["data_keys"]
        content["rotation"] = sorted(counts.values()), counts[shown["current"]], shown["unreadable"]
        content["root keys"] = len((folder / ROOT_KEY_FILE).read_text(encoding="ascii").split())
    gone = secrets_in(source) - secrets_in(folder)
    return content | await asyncio.to_thread(_files_of, folder, gone)


def _files_of(folder: Path, gone: Collection[bytes]) -> dict[str, list[str]]:
    """Name the files of a folder, and those that hold what should be gone."""
    files = {str(file.relative_to(folder)): file for file in folder.rglob("*") if file.is_file()}
    traces = [name for name, file in files.items() if any(one in file.read_bytes() for one in gone)]
    return {"files": sorted(files), "traces": sorted(traces)}


def secrets_in(folder: Path) -> set[bytes]:
    """Return the root keys, the wrapped keys and the sealed small pictures of a folder."""
    found = set((folder / ROOT_KEY_FILE).read_bytes().split())
    with closing(sqlite3.connect(folder / DATABASE_FILE)) as connection:
        for statement in _SECRET:
            found.update(bytes(value) for (value,) in connection.execute(statement).fetchall())
    return {one for one in found if len(one) >= SHORTEST}


async def main(kinds: Sequence[str], every: int) -> int:
    """Kill at each write, or at every so manyth; 1 when any end differs."""
    faults = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepared = await prepare(folder)
        for kind in kinds:
            writes, expected = await run_whole(prepared, kind, folder / f"{kind}-whole")
            killed, different = 0, {}
            for nth in range(1, writes + 1, every):
                died, found = await run_killed(prepared, kind, folder / f"{kind}-{nth}", nth)
                killed += died
                if found != expected:
                    different[nth] = [
                        name for name in expected | found if found.get(name) != expected.get(name)
                    ]
                await asyncio.to_thread(shutil.rmtree, folder / f"{kind}-{nth}")
            line = {
                "job": kind, "writes": writes, "killed": killed,
                "ended differently": different, "traces": expected["traces"],
            }  # fmt: skip
            faults += bool(different or expected["traces"])
            os.write(1, (json.dumps(line) + "\n").encode())
    return 1 if faults else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--every", type=int, default=1, help="kill at every so manyth write alone")
    given = parser.parse_args()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*PRELOADED, "tests.chaos.upkeep_jobs"])
    forkserver.ensure_running()
    sys.exit(asyncio.run(main(given.kinds, given.every)))
