"""Sandbox verifications against the bare echo, in turns on the same cores: `python -m tests.bench.sandbox`.

Both are one process that serves HTTP, runs the embedded broker and a Faust agent with a table. The echo
does nothing else; the service checks the key, validates the body, keeps two encrypted images, decodes
them, seals personal values, commits record, index, audit and event rows, tells the decision topic and
seals the audit chain. What is compared is the rate of finished requests, as a ratio.

The laden echo runs in the same turns: the echo with the bare library calls no sandbox verification needs
(`tests.bench.library_calls`). Its share of the bare echo's rate is the most this machine leaves to any
service of this shape in one process; the service's share of the laden echo is what our own code costs.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from aiohttp import ClientSession, TCPConnector

from tests.bench.load import Measured, load
from tests.journeys.service import Service, new_log, running_service, small_request
from tests.tied import tied

AT_ONCE = 64


@asynccontextmanager
async def running_echo(folder: Path, *options: str) -> AsyncIterator[str]:
    """Run the echo in a process of its own."""
    echo_log = new_log(folder, "echo")
    with echo_log.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *tied(), sys.executable, "-m", "tests.bench.echo", str(folder), *options,
            stdout=asyncio.subprocess.PIPE, stderr=log,
        )  # fmt: skip
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


@dataclass(frozen=True, slots=True)
class Shares:
    """One rate as a share of another, each pair taken in one round; medians over the rounds."""

    service_of_echo: float
    laden_of_echo: float
    service_of_laden: float


async def compare(requests: int, rounds: int) -> Shares:
    """Run all three in turns; print every round."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        echo = await stack.enter_async_context(running_echo(folder / "echo"))
        laden = await stack.enter_async_context(running_echo(folder / "laden", "--laden"))
        service: Service = await stack.enter_async_context(running_service(folder / "service"))
        client = await stack.enter_async_context(ClientSession(connector=TCPConnector(limit=0)))
        targets = {
            "echo": (f"{echo}/echo", "none"),
            "laden": (f"{laden}/echo", "none"),
            "service": (f"{service.url}/v1/verifications", service.test_key),
        }
        prepared = bodies(requests)
        taken = []
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
                taken.append(rates)
        return Shares(
            service_of_echo=statistics.median(rates["service"] / rates["echo"] for rates in taken),
            laden_of_echo=statistics.median(rates["laden"] / rates["echo"] for rates in taken),
            service_of_laden=statistics.median(rates["service"] / rates["laden"] for rates in taken),
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=1500, help="per round and target")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    shares = asyncio.run(compare(chosen.requests, chosen.rounds))
    sys.stdout.write(
        f"sandbox verifications reach {shares.service_of_echo:.0%} of the bare echo's rate; "
        f"the laden echo reaches {shares.laden_of_echo:.0%}, "
        f"and sandbox verifications {shares.service_of_laden:.0%} of that\n"
    )
