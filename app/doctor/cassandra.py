"""The doctor's look at the configured Cassandra: nodes, copies, schema and clock."""

import asyncio
from collections.abc import Iterator
from typing import Final

from app.adapters.cassandra.diagnostics import SAFE_COPIES, Seen, look_at
from app.adapters.cassandra.schema import NEWEST
from app.composition.cassandra import address_of
from app.doctor.findings import Finding
from app.settings import Settings, SettingsRefused
from schemas.problems import VeristreamError

CLOCK_S: Final = 5.0
"""Seconds that clocks may be apart; what is deleted and written anew is put in order by them."""


async def check_cassandra(settings: Settings) -> list[Finding]:
    """Return the findings about Cassandra; none when it is not configured."""
    try:
        address = await asyncio.to_thread(address_of, settings)
        if address is None:
            return []
        seen = await look_at(address, settings.cassandra_keyspace)
    except (VeristreamError, SettingsRefused) as error:
        fix = "do what the message says"
        return [Finding(looked_at="Cassandra", ok=False, found=str(error), fix=fix)]
    fixes = list(_fixes(seen, settings.cassandra_keyspace))
    found = (
        f"{seen.release} at {address}, {seen.nodes_up} of {seen.nodes} nodes up, schema {seen.schema}, "
        f"copies: {seen.copies}, clock {seen.clock_ahead_s:+.1f} s"
    )
    return [Finding(looked_at="Cassandra", ok=not fixes, found=found, fix="; ".join(fixes) or None)]


def _fixes(seen: Seen, keyspace: str) -> Iterator[str]:
    if seen.nodes_up < seen.nodes:
        yield "bring the nodes up that are down"
    if seen.schema < NEWEST:
        yield "run: veristream migrate"
    if seen.copies < min(seen.nodes, SAFE_COPIES):
        yield f"keep {min(seen.nodes, SAFE_COPIES)} copies: ALTER KEYSPACE {keyspace}, then nodetool repair"
    if abs(seen.clock_ahead_s) > CLOCK_S:
        yield "set the clocks of all machines by NTP"
