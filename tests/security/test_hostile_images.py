"""Hostile images sent to a running service: answered at bounded cost, and it stays ready (S41, S42)."""

from pathlib import Path

from tests.bench.hostile_images import ANSWERS, CPU_S, MEMORY_MIB, Meter, post_image
from tests.journeys.service import encoded, hopper, readiness, running_service
from tests.specimens.hostile_corpus import corpus, passport_page

CHOSEN = (
    "841 finder patterns of 3 px on a slip",
    "20 near lines of a zone, 0",
    "9900000 fill bytes before a marker",
    "2000 EXIF blocks empty in a JPEG",
)
"""One of each kind that used to hold the service; all of them: `python -m tests.bench.hostile_images`."""
HONEST_PAGES = 8
"""As many pages take `CPU_S` on a quiet machine; on a busy one all of its work counts as more."""


async def test_s41_s42_hostile_images_are_answered_and_the_service_stays_ready(tmp_path: Path) -> None:
    images = corpus()
    async with running_service(tmp_path) as service:
        selfie = encoded(hopper().selfie)
        meter = Meter(service.role.process.pid)
        honest = await post_image(service, meter, "warm-up", passport_page(), selfie)
        costs = [await post_image(service, meter, name, images[name](), selfie) for name in CHOSEN]
        ready = await readiness(service.client, service.url)
        log = service.role.log.read_text()

    assert [cost for cost in costs if cost.status not in ANSWERS] == []
    assert [cost for cost in costs if cost.cpu_s > max(CPU_S, HONEST_PAGES * honest.cpu_s)] == []
    assert [cost for cost in costs if cost.memory_mib > MEMORY_MIB] == []
    assert ready["dependencies"]["engines"]["status"] == "up"
    assert "Traceback" not in log
    assert "dead_letter" not in log
