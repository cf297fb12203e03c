"""A running service, one browser with a fake camera, and a watched page for each test."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright

from tests.browser.fixtures import chromium_arguments, find_chromium
from tests.browser.office import Office
from tests.browser.scenes import black, write_scene
from tests.browser.shown import NO_CLICK_BEFORE_LOAD, WAIT_MS, Shown, until_scripted
from tests.journeys.people import Person, sign_in
from tests.journeys.service import OPERATOR_TOKEN, Service, running_service, veristream_json
from tests.journeys.test_sessions import publish_flow

PLAIN_HOST: Final = "phone.example"
"""Leads to the service too; to the browser it is an insecure origin, as any name on plain http is."""


@dataclass(frozen=True, slots=True)
class Camera:
    """A browser whose camera shows what a file says."""

    browser: Browser
    scene: Path


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def service(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    """A service started with `veristream up` and one tenant."""
    given = {"SERVICE_PLATFORM_OPERATOR_TOKEN": OPERATOR_TOKEN}
    async with running_service(tmp_path_factory.mktemp("service"), given, preloaded=True) as running:
        yield running


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def camera(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Camera]:
    """The run's browser."""
    scene = tmp_path_factory.mktemp("camera") / "scene.mjpeg"
    write_scene(scene, black())
    arguments = chromium_arguments(scene, f"--host-resolver-rules=MAP {PLAIN_HOST} 127.0.0.1")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=find_chromium(), args=arguments, timeout=WAIT_MS
        )
        yield Camera(browser, scene)
        await browser.close()


Show = Callable[..., Awaitable[Shown]]


@pytest_asyncio.fixture(loop_scope="session")
async def shown(service: Service, camera: Camera) -> AsyncIterator[Show]:
    """Open watched pages, each in a context of its own; whatever goes wrong on one fails the test."""
    opened: list[Shown] = []

    async def show(address: str, *, allowed: bool = True, **options: Any) -> Shown:
        options.setdefault("viewport", {"width": 360, "height": 640})
        options.setdefault("reduced_motion", "reduce")  # axe would judge colours on their way
        permissions = ["camera"] if allowed else []
        context = await camera.browser.new_context(permissions=permissions, **options)
        context.set_default_timeout(WAIT_MS)
        await context.add_init_script(NO_CLICK_BEFORE_LOAD)
        one = Shown(await context.new_page(), context, service.url)
        one.watch()
        opened.append(one)
        await one.page.goto(address)
        if options.get("java_script_enabled", True):
            await until_scripted(one.page)
        return one

    yield show
    for number, one in enumerate(opened):
        await one.picture(f"last-{number}")
        await one.context.close()
    assert [fault for one in opened for fault in one.faults] == []


async def _signed_in(service: Service, role: str) -> Person:
    async def command(*words: str) -> Any:
        return await veristream_json(service.data_dir, *words)

    return await sign_in(service.client, service.url, command, service.tenant_id, role)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def admin(service: Service) -> Person:
    """A signed-in member who may publish flows."""
    return await _signed_in(service, "ADMIN")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def office(service: Service, admin: Person) -> Office:
    """One signed-in member of each role that looks at cases."""
    roles = ("REVIEWER", "COMPLIANCE_LEAD", "AUDITOR")
    return Office(service, admin, {role: await _signed_in(service, role) for role in roles})


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def flows(admin: Person) -> dict[str, str]:
    """A published flow of each type that takes pictures of documents."""
    return {kind: await publish_flow(admin, kind) for kind in ("DOCUMENT", "FULL_IDENTITY")}


Open = Callable[..., Awaitable[dict[str, Any]]]


@pytest.fixture
def open_session(service: Service, flows: dict[str, str]) -> Open:
    """Open a session as a tenant's server does."""

    async def open_one(subject_id: str, kind: str = "FULL_IDENTITY", **said: Any) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {service.test_key}"}
        body = {"flow_id": flows[kind], "subject_id": subject_id, **said}
        url = f"{service.url}/v1/verification-sessions"
        async with service.client.post(url, json=body, headers=headers) as answer:
            opened: dict[str, Any] = await answer.json()
            assert answer.status == 201, opened
            return opened

    return open_one
