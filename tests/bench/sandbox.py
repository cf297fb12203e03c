"""Sandbox verifications against the bare echo, in turns on the same cores: `python -m tests.bench.sandbox`.

Both are one process that serves HTTP, runs the embedded broker and a Faust agent with a table. The echo
does nothing else; the service checks the key, validates the body, keeps two encrypted images, decodes
them, seals personal values, commits record, index, audit and event rows, tells the decision topic and
seals the audit chain. What is compared is the rate of finished requests, as a ratio.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from aiohttp import ClientSession, TCPConnector

from tests.bench.load import Measured, load
from tests.journeys.service import Service, new_log, running_service, small_request

AT_ONCE = 64


@asynccontextmanager
async def running_echo(folder: Path) -> AsyncIterator[str]:
    """Run the echo in a process of its own."""
    echo_log = new_log(folder, "echo")
    with echo_log.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.bench.echo", str(folder), stdout=asyncio.subprocess.PIPE, stderr=log
        )
    assert process.stdout is not None
    try:
        while b"is ready" not in (line := await process.stdout.readline()):
            assert line, echo_log.read_text()
        yield line.decode().rpartition(": ")[2].strip()
    finally:
        process.terminate()
        await process.wait()


def bodies(requests: int) -> list[bytes]:
    """As many different requests, prepared before the clock runs."""
    return [json.dumps(small_request(f"sim:approved@bench-{number}")).encode() for number in range(requests)]


async def post_all(client: ClientSession, url: str, key: str, prepared: list[bytes]) -> Measured:
    """Post every body once, `AT_ONCE` at a time."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    async def send(number: int) -> int:
        async with client.post(url, data=prepared[number], headers=headers) as answer:
            await answer.read()
            return answer.status

    return await load(send, len(prepared), AT_ONCE)


async def compare(requests: int, rounds: int) -> float:
    """Run both in turns; print every round, and return the median ratio service / echo."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        echo = await stack.enter_async_context(running_echo(folder / "echo"))
        service: Service = await stack.enter_async_context(running_service(folder / "service"))
        client = await stack.enter_async_context(ClientSession(connector=TCPConnector(limit=0)))
        targets = {
            "echo": (f"{echo}/echo", "none"),
            "service": (f"{service.url}/v1/verifications", service.test_key),
        }
        prepared = bodies(requests)
        ratios = []
        for number in range(rounds + 1):
            rates = {}
            for name, (url, key) in targets.items():
                measured = await post_all(client, url, key, prepared)
                rates[name] = measured.per_second
                sys.stdout.write(
                    measured.line(f"{'warm-up' if number == 0 else f'round {number}'} {name}") + "\n"
                )
                assert set(measured.answers) == {201}, measured.answers
            if number:
                ratios.append(rates["service"] / rates["echo"])
        return statistics.median(ratios)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=1500, help="per round and target")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    ratio = asyncio.run(compare(chosen.requests, chosen.rounds))
    sys.stdout.write(f"sandbox verifications reach {ratio:.0%} of the bare echo's rate\n")
