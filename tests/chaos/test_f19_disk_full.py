"""F19: a disk fills up, under the log lines, the blobs, the store or the broker; room again is enough.

`/readyz` names what is full, and is well again by itself. How a full disk is played stands in `room`.
"""

import asyncio
import errno
import io
import logging
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import structlog
from aiohttp import ClientSession
from typing_extensions import override

from app.adapters.security.crypto import RootKey
from app.adapters.sqlite.stores import open_sqlite_stores
from app.observability.health_probes import TAKES_NONE
from app.observability.logging import configure_logging
from schemas.problems import NotFound, StoreUnavailable
from tests.agents.support import until
from tests.builders import ACME, build_evidence_draft
from tests.chaos.fleet import Embedded, running_fleet
from tests.chaos.load import LATER, Load, open_client
from tests.chaos.room import no_room
from tests.chaos.sizes import commands, seeded
from tests.chaos.verdict import check
from tests.journeys.service import Role

ROOM_FOR_LITTLE = 256 * 1024
"""Bytes; the database of a test is smaller, its picture larger."""


class FullDisk(io.StringIO):
    """A file whose disk has no room."""

    @override
    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def restored_logging() -> Iterator[None]:
    """Leave logging as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.usefixtures("restored_logging")
def test_log_lines_without_room_are_lost_and_stop_nothing() -> None:
    with FullDisk() as full:
        configure_logging("json", "info", full, cached=False)

        structlog.get_logger().info("verification.decided")
        logging.getLogger("aiokafka").error("away")


async def test_a_blob_without_room_leaves_no_row_and_no_file(tmp_path: Path) -> None:
    draft = build_evidence_draft(seeded("F19 blob").randbytes(2 * ROOM_FOR_LITTLE))
    evidence_id = draft.row.evidence_id
    async with open_sqlite_stores(tmp_path, RootKey(b"r" * 32)) as stores:
        with no_room(0, limit=ROOM_FOR_LITTLE):
            with pytest.raises(StoreUnavailable):
                await stores.evidence.put([draft])
            with pytest.raises(NotFound):
                await stores.evidence.describe(ACME, evidence_id)
        left = [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()]

        await stores.evidence.put([draft])

        assert left == []
        assert await stores.evidence.get(ACME, evidence_id) == draft.content


async def readiness(client: ClientSession, url: str) -> tuple[int, dict[str, Any]]:
    """Ask `/readyz`: the status, and each dependency."""
    async with client.get(f"{url}/readyz") as answer:
        return answer.status, (await answer.json())["dependencies"]


async def is_ready(client: ClientSession, url: str) -> bool:
    """Return whether all is well again."""
    return (await readiness(client, url))[0] == 200


async def is_down(client: ClientSession, url: str, wanted: Mapping[str, str]) -> bool:
    """Return whether these dependencies and no others are down for these causes."""
    status, answer = await readiness(client, url)
    found = {name: one["cause"] for name, one in answer.items() if one["status"] == "down"}
    assert (status == 503) == bool(found)
    return found.keys() == wanted.keys() and all(cause in found[name] for name, cause in wanted.items())


CAUSES_AT_FRONT: Final[Mapping[str, Mapping[str, str]]] = {
    "front": {"store": "", "disk": "store: the disk cannot be written"},
    "broker": {"broker": TAKES_NONE},
    "worker": {},  # its own health port says that
}
"""What the front's `/readyz` says is down, by who has no room."""


async def test_a_full_disk_is_answered_as_a_failing_store_and_room_again_is_enough(tmp_path: Path) -> None:
    """First the front has no room, then the worker, then the broker; nobody is started again."""
    chance = seeded("F19")
    count = commands(20)
    profile = Embedded(tmp_path)
    async with (
        running_fleet(tmp_path, profile, SERVICE_ANSWER_TIMEOUT_S="4") as fleet,
        open_client() as client,
    ):
        front, worker = await asyncio.gather(fleet.front(), fleet.worker())
        places: dict[str, Role] = {"front": front, "worker": worker, "broker": profile.broker}
        loads = {name: Load(client, front.url, fleet.test_key, count, name=name) for name in places}
        before = Load(client, front.url, fleet.test_key, count, name="before")
        await before.post_all()
        for name in chance.sample(sorted(places), len(places)):
            with no_room(places[name].process.pid):
                await loads[name].post_all()
                read = await before.post(0)
                await until(partial(is_down, client, front.url, CAUSES_AT_FRONT[name]))
            assert {(status, code in LATER) for status, code in loads[name].outcomes} <= {
                (500, True),
                (503, True),
            }, name
            assert read[0] == 200, name
            await loads[name].settle_all()
            await until(lambda: is_ready(client, front.url))

        rows = await before.audit_rows()
        assert (len(rows), set(rows.values())) == (count * (1 + len(places)), {1})
        assert [role.process.returncode for role in places.values()] == [None] * len(places)
        await check(fleet)
