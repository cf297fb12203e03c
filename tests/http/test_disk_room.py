"""A disk without room is reported by name on `/readyz`, room again is enough; on files, store and broker."""

from pathlib import Path

import structlog

from app.observability.disk_space import DiskProbe, places_of
from app.observability.health_probes import BrokerProbe, WriteProof
from app.settings import Settings
from schemas.problems import StoreUnavailable
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.producer import LogWriter
from tests.agents.support import KEYS, open_broker, until
from tests.chaos.room import no_room


async def test_f19_a_folder_that_cannot_be_written_is_named_and_recovers(tmp_path: Path) -> None:
    probe = DiskProbe({"evidence": tmp_path / "made later", "store": tmp_path})
    well = await probe()
    with no_room(0):
        full = await probe()

    assert (well, await probe()) == (None, None)
    assert full == "store: the disk cannot be written (File too large)"


async def test_f19_a_disk_that_is_nearly_full_is_named_before_large_images_fail(tmp_path: Path) -> None:
    places = places_of(Settings(data_dir=tmp_path / "data"))
    result = await DiskProbe(places, least_free_bytes=1 << 60)()

    assert list(places) == ["evidence", "store", "broker"]
    assert result is not None
    assert all(f"{name}: the disk is full" in result for name in places)
    assert str(tmp_path) not in result


async def test_f19_only_disks_of_this_machine_are_looked_at(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, kafka_bootstrap="kafka:9092", cassandra_contact_points="cassandra")

    assert list(places_of(settings)) == ["evidence"]


async def test_f19_a_broker_that_takes_no_record_is_down_and_is_up_again_by_itself(tmp_path: Path) -> None:
    async with open_broker(tmp_path / "broker") as broker:
        access = LogAccess(broker.address)
        async with LogWriter(access, KEYS) as writer:
            probe = BrokerProbe(access, writer)
            with structlog.testing.capture_logs(), no_room(0):  # a line on stdout would not fit either
                full = await probe()

            async def well() -> bool:
                return await probe() is None

            await until(well)

    assert full is not None
    assert "takes no record" in full


async def test_f19_a_proof_that_failed_is_tried_again_at_once() -> None:
    outcomes = [StoreUnavailable("full"), None, None]
    tried = 0

    async def write() -> None:
        nonlocal tried
        tried += 1
        if (error := outcomes[tried - 1]) is not None:
            raise error

    proof = WriteProof(write, lambda: 0.0)
    try:
        await proof.renew()
    except StoreUnavailable:
        await proof.renew()
    await proof.renew()
    by_age = tried
    await proof.renew(at_once=True)

    assert (by_age, tried) == (2, 3)
