"""S62: a tenant that sends many verifications at once delays no other, and is reported when to come back."""

import asyncio
from pathlib import Path

from tests.bench.noisy_neighbour import Tenant, bodies, meanwhile
from tests.journeys.service import make_tenant, running_service

AT_ONCE = 24
"""More than wait in half of the answer timeout on any machine that runs the tests."""

BETWEEN = 6
"""Decisions of the busy tenant while the quiet one waits: what was released, and one turn more."""

ACCEPTED = {None, "DECISION_PENDING"}
"""A decision, or on a machine with too much to do the word that it comes; then the key finds it later."""


async def test_s62_a_tenant_beside_a_busy_one_is_served_in_its_turn_and_never_refused(tmp_path: Path) -> None:
    wire = bodies(2, width=320)
    async with running_service(tmp_path, {"SERVICE_VERIFICATIONS_AT_ONCE": "2"}, preloaded=True) as service:
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
