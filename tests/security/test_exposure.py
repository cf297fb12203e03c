"""What a deployment shows to whom: methods, metrics, ports (S66, S67)."""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from aiohttp import ClientSession
from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from app.composition.wiring import _metrics_by_token
from app.http.health_port import serving_health
from app.settings import Settings, SettingsRefused
from streams.runtime.app import StreamSettings, build_app
from streams.runtime.kafka_client_config import LogAccess
from tests.http.support import TEST, Front, Response, open_front
from tests.http.test_permissions import IDS
from tests.http.test_wire import exchange, headers_of
from tests.journeys.service import METRICS, OPERATOR_TOKEN, SHOW_METRICS, Role

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"})
FAUST_PORT = 6066
"""Where Faust's own web server would listen, which shows tables to anybody."""


@pytest.fixture
async def front() -> AsyncIterator[Front]:
    """A front with every route there can be."""
    async with open_front(operator_token=SecretStr(OPERATOR_TOKEN), metrics_by_token=True) as opened:
        yield opened


async def ask_raw(front: Front, method: str, path: str) -> bytes:
    """Ask over a socket of its own: no client library has a say in the method."""
    return await exchange(front, f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())


async def test_s66_every_route_answers_unused_methods_with_405_and_the_ones_it_has(front: Front) -> None:
    """TRACE included, without a credential, and whatever the route needs otherwise."""
    described = json.loads((await front.ask("GET", "/v1/openapi.json", None)).body)["paths"]
    allowed: dict[str, set[str]] = defaultdict(set)
    for path, operations in described.items():
        allowed[path] |= {method.upper() for method in operations} | {"OPTIONS"}
        allowed[path] |= {"HEAD"} if "get" in operations else set()

    wrong = []
    for path, methods in allowed.items():
        session = "vs" if "verification-sessions" in path else "rs"
        named = IDS | ({"code": "not-found"} if path.startswith("/problems") else {})
        place = path.format(**named, session_id=f"{session}_{'0' * 26}")
        for method in METHODS - methods:
            answer = await ask_raw(front, method, place)
            offered = {one.strip() for one in headers_of(answer).get("allow", "").split(",")}
            if not answer.startswith(b"HTTP/1.1 405 ") or offered != methods:
                wrong.append((method, path, answer[:30], offered ^ methods))

    assert wrong == []
    assert len(allowed) > 60


async def test_s66_metrics_are_not_on_the_port_of_callers_unless_a_setting_says_so() -> None:
    async with open_front(operator_token=SecretStr(OPERATOR_TOKEN)) as front:
        responses = [await front.ask("GET", "/metrics", key) for key in (None, TEST, OPERATOR_TOKEN)]
        nowhere = await front.ask("GET", "/nowhere", None)

    assert {one.status for one in responses} == {404}
    assert {without_id(one) for one in responses} == {without_id(nowhere)}


def without_id(response: Response) -> str:
    """The problem without what names this one request."""
    named = {"request_id", "instance"}
    return json.dumps({name: value for name, value in response.json.items() if name not in named})


async def test_s66_metrics_by_token_are_the_operators_alone(front: Front) -> None:
    responses = [
        (await front.ask("GET", "/metrics", key)).status for key in (None, TEST, "x" * 40, OPERATOR_TOKEN)
    ]

    assert responses == [401, 401, 401, 200]


def test_s66_metrics_by_token_need_a_token() -> None:
    with pytest.raises(SettingsRefused, match="set SERVICE_PLATFORM_OPERATOR_TOKEN"):
        _metrics_by_token(Settings(metrics="token"))

    assert not _metrics_by_token(Settings())
    assert _metrics_by_token(Settings(metrics="token", platform_operator_token=SecretStr(OPERATOR_TOKEN)))


@pytest.mark.parametrize("with_metrics", [True, False])
async def test_s66_the_health_port_is_loopbacks_and_takes_reads_alone(*, with_metrics: bool) -> None:
    registry = CollectorRegistry()
    async with (
        serving_health(0, {}, registry, with_metrics=with_metrics) as url,
        ClientSession() as client,
    ):
        async with client.get(f"{url}/metrics") as metrics:
            status = metrics.status
        others = {}
        for method in METHODS - {"GET", "HEAD"}:
            for path in ("/livez", "/readyz"):
                async with client.request(method, url + path) as answer:
                    others[method, path] = answer.status, answer.headers.get("Allow")

    assert url.startswith("http://127.0.0.1:")
    assert status == (200 if with_metrics else 404)
    assert set(others.values()) == {(405, "GET,HEAD")}


async def test_s66_s67_no_role_listens_anywhere_but_where_it_was_configured(tmp_path: Path) -> None:
    """Broker, front and worker as processes: each has its own port and a health port, on loopback alone."""
    roles = [await Role.start(tmp_path, "broker")]
    try:
        roles += await asyncio.gather(
            Role.start(tmp_path, "front", "--port", "0", "--health-port", "0", given=METRICS),
            Role.start(tmp_path, "worker", "--streams", "audit", "--health-port", "0"),
        )
        listening = [sockets_of(role) for role in roles]
        front = roles[1]
        async with ClientSession() as client:
            collected = {}
            for port in {port for _, port in listening[1]}:
                for sent in ({}, SHOW_METRICS):
                    async with client.get(f"http://127.0.0.1:{port}/metrics", headers=sent) as answer:
                        collected[port == int(front.url.rpartition(":")[2]), bool(sent)] = answer.status
    finally:
        await asyncio.gather(*(role.kill() for role in roles))

    assert [len(found) for found in listening] == [1, 2, 1]
    assert {host for found in listening for host, _ in found} == {"127.0.0.1"}
    assert FAUST_PORT not in {port for found in listening for _, port in found}
    assert collected == {(True, False): 401, (True, True): 200, (False, False): 200, (False, True): 200}


def sockets_of(role: Role) -> set[tuple[str, int]]:
    """Where a process listens for TCP."""
    process: Any = psutil.Process  # untyped
    connections = process(role.process.pid).net_connections(kind="tcp")
    return {(one.laddr.ip, one.laddr.port) for one in connections if one.status == psutil.CONN_LISTEN}


def test_s67_fausts_own_web_server_is_off(tmp_path: Path) -> None:
    app = build_app(StreamSettings(access=LogAccess("127.0.0.1:9"), datadir=tmp_path))

    assert not app.conf.web_enabled
