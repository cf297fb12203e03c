"""The bare echo: HTTP, broker, Faust table, HTTP in one process, and nothing of the product's work in it.

It is what the sandbox verifications are measured against: the same front library and broker, Faust as it is
published with one table write, and not one line of the product's stream runtime, handlers, stores or
middlewares. Its replies are sent at once. With `--laden` it also makes the bare library calls no sandbox
verification needs (`tests.bench.library_calls`): what is then left of its rate is the most any service of
this shape could reach in one process.
"""

import asyncio
import itertools
import sys
from pathlib import Path
from typing import Any, cast

import faust
from aiohttp import web
from aiokafka import (  # type: ignore[import-untyped]  # ships no types
    AIOKafkaConsumer,
    AIOKafkaProducer,
    TopicPartition,
)
from aiokafka.admin import AIOKafkaAdminClient, NewTopic  # type: ignore[import-untyped]  # ships no types

from app.broker.server import Broker
from app.broker.settings import BrokerSettings
from app.process.startup import run, wait_for_stop_signal
from tests.bench.library_calls import EVENTS, LibraryCalls

PARTITIONS = 8


def echo_app(bootstrap: str, folder: Path, library_calls: LibraryCalls | None) -> faust.App:
    """A Faust app that counts each key in a table and sends the value back."""
    app = faust.App(
        "echo",
        autodiscover=False,
        broker=f"kafka://{bootstrap}",
        datadir=str(folder / "faust"),
        store="memory://",
        topic_partitions=PARTITIONS,
        topic_allow_declare=False,
        topic_disable_leader=True,
        table_standby_replicas=0,
        producer_linger_ms=0,
        web_enabled=False,
        worker_redirect_stdouts=False,
    )
    raw: dict[str, Any] = {
        "key_type": bytes,
        "value_type": bytes,
        "key_serializer": "raw",
        "value_serializer": "raw",
    }
    commands, replies = app.topic("echo.commands", **raw), app.topic("echo.replies", **raw)
    counts = app.Table("counts", default=int, key_type=cast("Any", str), partitions=PARTITIONS)

    async def echo(stream: Any) -> None:
        async for event in stream.events():
            if library_calls is not None:
                await library_calls.of_the_agent(event.key)
            counts[event.key.decode()] += 1
            await replies.send(key=event.headers["cid"], value=event.value, partition=0)

    app.agent(commands, name="echo", isolated_partitions=True)(echo)
    return app


def echo_front(
    producer: Any, pending: dict[bytes, asyncio.Future[bytes]], library_calls: LibraryCalls | None
) -> web.Application:
    """A front that sends the first bytes of a body as a command and answers with what comes back."""
    numbers = itertools.count()

    async def post(request: web.Request) -> web.Response:
        body = await request.read()
        number = b"%d" % next(numbers)
        if library_calls is not None:
            await library_calls.of_the_front(number, body)
        waiting = pending[number] = asyncio.get_running_loop().create_future()
        await producer.send("echo.commands", body[:400], key=number, headers=[("cid", number)])
        answer = await waiting
        if library_calls is not None:
            answer = await library_calls.of_the_answer(number)
        return web.Response(body=answer, status=201)

    front = web.Application(client_max_size=32 << 20)
    front.router.add_post("/echo", post)
    return front


async def read_replies(consumer: Any, pending: dict[bytes, asyncio.Future[bytes]]) -> None:
    """Give each answer to who waits for it."""
    async for message in consumer:
        waiting = pending.pop(message.key, None)
        if waiting is not None:
            waiting.set_result(message.value)


async def serve(folder: Path, *, laden: bool) -> None:
    """Run broker, agent and front until asked to stop; prints the address when ready."""
    async with Broker(BrokerSettings(directory=folder / "broker")) as broker:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.address)
        await admin.start()
        wanted = [
            NewTopic("echo.commands", PARTITIONS, 1),
            NewTopic("echo.replies", 1, 1),
            NewTopic(EVENTS, PARTITIONS, 1),
            NewTopic("echo-counts-changelog", PARTITIONS, 1),  # agents declare no topic themselves
        ]
        await admin.create_topics(wanted)
        await admin.close()
        producer = AIOKafkaProducer(bootstrap_servers=broker.address, acks="all", linger_ms=0)
        await producer.start()
        library_calls = LibraryCalls(folder / "store.db", producer) if laden else None
        app = echo_app(broker.address, folder, library_calls)
        app.finalize()
        await app.start()
        while not app.consumer.assignment() or app.rebalancing or app.in_recovery:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        consumer = AIOKafkaConsumer(bootstrap_servers=broker.address)
        await consumer.start()
        partition = TopicPartition("echo.replies", 0)
        consumer.assign([partition])
        await consumer.seek_to_end(partition)
        await consumer.position(partition)
        pending: dict[bytes, asyncio.Future[bytes]] = {}
        reader = asyncio.create_task(read_replies(consumer, pending))
        front = echo_front(producer, pending, library_calls)
        runner = web.AppRunner(front, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        sys.stdout.write(f"echo is ready: http://127.0.0.1:{runner.addresses[0][1]}\n")
        sys.stdout.flush()
        await wait_for_stop_signal()
        reader.cancel()
        await runner.cleanup()
        await consumer.stop()
        await producer.stop()
        await app.stop()


if __name__ == "__main__":
    run(serve(Path(sys.argv[1]), laden="--laden" in sys.argv))
