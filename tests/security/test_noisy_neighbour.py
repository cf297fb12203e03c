"""S62: a tenant with many verifications at once, or bodies that never end, delays and starves no other."""

import asyncio
from pathlib import Path

from tests.bench.noisy_neighbour import Tenant, bodies, meanwhile
from tests.http.support import FOREIGN, TEST, build_body, open_front
from tests.http.test_wire import HOST
from tests.journeys.service import make_tenant, running_service

AT_ONCE = 24
"""More than wait in half of the answer timeout on any machine that runs the tests."""

SETTINGS = {"SERVICE_VERIFICATIONS_AT_ONCE": "2", "SERVICE_ANSWER_TIMEOUT_S": "30"}

BETWEEN = 6
"""Decisions of the busy tenant while the quiet one waits: what was released, and one turn more."""

ACCEPTED = {None, "DECISION_PENDING"}
"""A decision, or on a machine with too much to do the word that it comes; then the key finds it later."""
MEBIBYTE = 1024 * 1024


async def test_s62_a_tenant_beside_a_busy_one_is_served_in_its_turn_and_never_refused(tmp_path: Path) -> None:
    wire = bodies(2, width=320)
    async with running_service(tmp_path, SETTINGS, preloaded=True) as service:
        _, other_key, _ = await make_tenant(tmp_path, "Globex")
        busy = Tenant(service, service.live_key, wire, "busy")
        quiet = Tenant(service, other_key, wire, "quiet")
        flood = [asyncio.create_task(busy.post(number)) for number in range(AT_ONCE)]
        await asyncio.wait(flood, return_when=asyncio.FIRST_COMPLETED)
        asked = [await quiet.send(f"quiet-{number}", number) for number in range(2)]
        await asyncio.gather(*flood)
        first_answers = list(busy.answers)
        await asyncio.gather(busy.settle(), quiet.settle())

    refused = [one for one in first_answers if one.code == "OVERLOADED"]
    accepted = [one for one in first_answers if one.code in ACCEPTED]
    between = [meanwhile(own, accepted) for own in asked]
    assert {one.code for one in asked} <= ACCEPTED
    assert max(between) <= BETWEEN
    assert len(refused) + len(accepted) == AT_ONCE
    assert all(int(one.retry_after or 0) > 1 for one in refused)
    assert refused
    assert max(one.at for one in accepted) > asked[0].at - asked[0].took_s  # it was asked beside the others


def unfinished(key: str, sent_bytes: int) -> bytes:
    """A request whose last byte does not come."""
    head = f"POST /v1/verifications HTTP/1.1\r\nAuthorization: Bearer {key}\r\n".encode() + HOST
    fields = f"Content-Type: application/json\r\nContent-Length: {sent_bytes + 1}\r\n\r\n".encode()
    return head + fields + b" " * sent_bytes


async def test_s62_a_tenant_whose_bodies_never_end_leaves_half_of_the_memory_to_others() -> None:
    async with open_front(body_budget_bytes=4 * MEBIBYTE) as front:
        pipes = [await asyncio.open_connection("127.0.0.1", front.port) for _ in range(5)]
        for _, writer in pipes:
            writer.write(unfinished(TEST, MEBIBYTE - 1))
        answers = asyncio.as_completed([reader.readline() for reader, _ in pipes], timeout=60)
        refused = [await next(answers) for _ in range(3)]
        other = await front.submit(build_body(), key=FOREIGN)
        for _, writer in pipes:
            writer.close()

    assert [answer.split()[1] for answer in refused] == [b"503"] * 3
    assert other.status == 201
