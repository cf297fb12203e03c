"""A veristream of one's own: started as a user would, spoken to over HTTP, ended by its process id."""

import asyncio
import base64
import json
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final, Protocol, Self

from aiohttp import ClientResponse, ClientSession, ClientTimeout
from PIL import Image, ImageFilter

from app.adapters.files.data_dir import DATABASE_FILE, ROOT_KEY_FILE, make_private
from app.adapters.security.crypto import load_root_key
from app.adapters.sqlite.engine import prepare
from app.cli.tenants import create_key, create_tenant
from app.demo.run import packaged_portrait, take_selfie
from app.demo.specimens import Alterations, PassportSpecimen, draw_passport, to_jpeg
from app.settings import Settings
from schemas.enums import Scope
from schemas.problems import ProblemCode
from streams.vision_ports import Face
from tests.prefork import ALL_TASKS, Run, fork, run_veristream
from tests.specimens import degrade
from tests.specimens.photographs import a_shot, another_photograph

START_S = 240.0
"""How long a start may take on a busy machine before the test gives up."""

LAST_LINES: Final = 40
"""How much of each log a failing test shows."""

LAST_LINES_HUNG: Final = 400
"""How much of its log is shown of a process that hung; its stacks are among them."""

STACKS_S: Final = 30.0
"""How long a process that hung may take to print its stacks before it is killed without."""


def print_last(log: Path) -> None:
    """Print the last lines of what a process said, which a test that fails shows."""
    if last := last_lines(log):
        print(f"--- {log.name}", last, sep="\n")  # noqa: T201 - shown only where the test fails


def last_lines(log: Path) -> str:
    """Return the last lines of what a process said."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-LAST_LINES:])


async def veristream(
    data_dir: Path, *arguments: str, given: Mapping[str, str] | None = None
) -> tuple[int, str, str]:
    """Run one command to its end: exit status, stdout, stderr."""
    command = (sys.executable, "-m", "app", *arguments, "--data-dir", str(data_dir))
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe, env=environment(given))
    try:
        async with asyncio.timeout(START_S):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    return process.returncode or 0, out.decode(), err.decode()


def begin_deployment(data_dir: Path, given: Mapping[str, str] | None = None) -> None:
    """Make what the first start makes in a data folder, without starting anything: root key and store."""
    make_private(data_dir)
    if "SERVICE_ROOT_KEY" not in (given or {}):
        load_root_key(None, data_dir / ROOT_KEY_FILE)
    if "SERVICE_CASSANDRA_CONTACT_POINTS" not in (given or {}):
        prepare(data_dir / DATABASE_FILE)


def entries(folder: Path) -> list[str]:
    """The names of what lies in a folder."""
    return sorted(path.name for path in folder.iterdir())


async def run_preloaded(
    data_dir: Path, *arguments: str, given: Mapping[str, str] | None = None, within_s: float = START_S
) -> tuple[int, str, str]:
    """Do what `veristream` does, in a process that need not import anything: see `tests/prefork.py`."""
    with NamedTemporaryFile() as sink:
        words = [*arguments, "--data-dir", str(data_dir)]
        process = await fork(run_veristream, words, environment(given), Path(sink.name))
        try:
            async with asyncio.timeout(within_s):
                said = (await process.stdout.read()).decode()
                return await process.wait(), said, sink.read().decode()
        finally:
            process.kill()


async def veristream_json(data_dir: Path, *arguments: str, given: Mapping[str, str] | None = None) -> Any:
    """Run one command in a preloaded process and read what it prints with --json."""
    status, out, err = await run_preloaded(data_dir, *arguments, "--json", given=given)
    assert status == 0, err or out
    return json.loads(out)


OPERATOR_TOKEN: Final = "k9Q2vX7mT4bW8sL1nR6yC3hJ5pD0fZaG"  # noqa: S105 - a test's own

METRICS: Final = {"SERVICE_METRICS": "token", "SERVICE_PLATFORM_OPERATOR_TOKEN": OPERATOR_TOKEN}
"""Settings of a front that shows its metrics to the operator."""

SHOW_METRICS: Final = {"Authorization": f"Bearer {OPERATOR_TOKEN}"}
"""Headers that open those."""


ELSEWHERE: Final = frozenset(
    {"SERVICE_CASSANDRA_CONTACT_POINTS", "SERVICE_ROOT_KEY", "SERVICE_ROOT_KEY_FILE"}
)
"""Settings by which a deployment's store or root key lies elsewhere than in its data folder."""


def environment(given: Mapping[str, str] | None = None) -> dict[str, str]:
    """The caller's environment without its SERVICE_* settings, limits off, stacks printed at SIGABRT.

    A decision is waited for as long as a start, however busy the machine.
    """
    stored = {name: value for name, value in os.environ.items() if not name.startswith("SERVICE_")}
    own = {
        "SERVICE_RATE_LIMITS": "off",
        "SERVICE_ANSWER_TIMEOUT_S": str(START_S),
        "SERVICE_LOG_FORMAT": "json",
        "PYTHONFAULTHANDLER": "1",
    }
    return {**stored, **own, **(given or {})}


def new_log(data_dir: Path, role: str) -> Path:
    """Name a file for what a process says on stderr."""
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = data_dir / f"{role}-{time.monotonic_ns()}.log"
    log.touch(mode=0o600)
    return log


class OsProcess(Protocol):
    """What the tests do with a process, however it was started."""

    @property
    def pid(self) -> int:
        """Its id."""
        ...

    @property
    def stdout(self) -> asyncio.StreamReader | None:
        """What it says."""
        ...

    @property
    def returncode(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        ...

    async def wait(self) -> int:
        """Return the exit status once it has ended."""
        ...

    def send_signal(self, signal: int, /) -> None:
        """Send it a signal."""
        ...

    def kill(self) -> None:
        """End it the hard way."""
        ...


@dataclass(slots=True)
class Role:
    """One process of the service."""

    process: OsProcess
    log: Path
    said: str = ""
    prints_tasks: bool = False
    """Whether SIGUSR1 makes it print its tasks."""

    @classmethod
    async def start(cls, data_dir: Path, *arguments: str, given: Mapping[str, str] | None = None) -> Self:
        """Start `veristream <arguments>` and wait until it says that it is ready; else it is ended."""
        log = new_log(data_dir, arguments[0])
        with log.open("wb") as sink:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "app", *arguments, "--data-dir", str(data_dir),
                stdout=asyncio.subprocess.PIPE, stderr=sink, env=environment(given),
            )  # fmt: skip
        role = cls(process, log)
        await role._until_ready(may_end=False)
        return role

    async def _until_ready(self, *, may_end: bool) -> None:
        """Wait until it says that it is ready, or ends if it may; otherwise it is killed."""
        try:
            self.said = await self._first_words()
            assert "is ready" in self.said or (may_end and not self.said), self.log.read_text()
        except BaseException:
            await self.kill()
            raise

    async def _first_words(self) -> str:
        assert self.process.stdout is not None
        try:
            async with asyncio.timeout(START_S):
                line = await self.process.stdout.readline()
        except TimeoutError:
            raise await self._hung(f"was not ready after {START_S:.0f} s") from None
        return line.decode()

    @property
    def url(self) -> str:
        """The address it said."""
        return self.said.partition(": ")[2].split()[0]

    async def stop(self) -> int:
        """Ask it to end, and return its exit status; one that does not end shows why and is killed."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(START_S):
                return await self.process.wait()
        except TimeoutError:
            raise await self._hung(f"has not ended {START_S:.0f} s after SIGTERM") from None

    async def _hung(self, how: str) -> AssertionError:
        """Kill it once it has printed its tasks and threads; return an error that shows them."""
        with suppress(TimeoutError):
            async with asyncio.timeout(STACKS_S):
                await self._print_tasks()
        with suppress(TimeoutError):
            async with asyncio.timeout(STACKS_S):
                self.process.send_signal(signal.SIGABRT)
                await self.process.wait()
        await self.kill()
        last = self.log.read_text(errors="replace").splitlines()[-LAST_LINES_HUNG:]
        return AssertionError("\n".join([f"{self.log.stem} (process {self.process.pid}) {how}:", *last]))

    async def _print_tasks(self) -> None:
        """Let it print its tasks, if it is a process that does."""
        if self.prints_tasks:
            self.process.send_signal(signal.SIGUSR1)
            while ALL_TASKS not in self.log.read_text(errors="replace"):  # noqa: ASYNC110 - of a process
                await asyncio.sleep(0.05)

    async def kill(self) -> None:
        """End it the hard way."""
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


async def start_preloaded(
    data_dir: Path, *arguments: str, given: Mapping[str, str] | None = None, run: Run = run_veristream
) -> Role:
    """Start `veristream <arguments>`, or what runs instead of it, in a process that has imported everything.

    It is waited for until it says that it is ready; a role that ends before has said nothing.
    """
    log = new_log(data_dir, arguments[0])
    process = await fork(run, [*arguments, "--data-dir", str(data_dir)], environment(given), log)
    role = Role(process, log, prints_tasks=True)
    await role._until_ready(may_end=True)
    return role


@dataclass(slots=True)
class Service:
    """A running service with one tenant and its two keys."""

    data_dir: Path
    url: str
    tenant_id: str
    live_key: str
    test_key: str
    client: ClientSession
    role: Role

    async def post(
        self, body: Any, *, key: str | None = None, idempotency: str | None = None
    ) -> tuple[int, dict[str, Any], Mapping[str, str]]:
        """Post a verification, with the test key unless said otherwise; status, body, headers."""
        headers = {"Authorization": f"Bearer {key or self.test_key}"}
        if idempotency is not None:
            headers["Idempotency-Key"] = idempotency
        async with self.client.post(f"{self.url}/v1/verifications", json=body, headers=headers) as answer:
            return answer.status, await answer.json(content_type=None), answer.headers

    async def decide(
        self, path: str, body: Any, idempotency: str, status: int = 201, **more: str
    ) -> dict[str, Any]:
        """Post what is decided while it waits, again as long as the decision is not there yet (G39).

        The answer has this status, or 200 when it was asked for again; `more` are further headers.
        """
        headers = {"Authorization": f"Bearer {self.test_key}", "Idempotency-Key": idempotency, **more}
        expected = {status}
        async with asyncio.timeout(START_S):
            while True:
                async with self.client.post(f"{self.url}{path}", json=body, headers=headers) as answer:
                    decided: dict[str, Any] = await answer.json(content_type=None)
                if decided.get("code") != ProblemCode.DECISION_PENDING:
                    assert answer.status in expected, decided
                    return decided
                expected.add(200)

    async def get(self, path: str, *, key: str | None = None, **parameters: str) -> tuple[int, Any]:
        """Get a route, with the test key unless said otherwise; status and body."""
        headers = {"Authorization": f"Bearer {key or self.test_key}"}
        asked = self.client.get(f"{self.url}{path}", params=parameters, headers=headers)
        async with asked as answer:
            return answer.status, await _body(answer)


async def readiness(client: ClientSession, url: str, status: int = 200) -> dict[str, Any]:
    """Return what `/readyz` tells once it has this status; a probe may take too long on a busy machine."""
    async with asyncio.timeout(START_S):
        while True:
            async with client.get(f"{url}/readyz") as answer:
                body: dict[str, Any] = await answer.json()
                if answer.status == status:
                    return body
            await asyncio.sleep(0.2)


async def _body(answer: ClientResponse) -> Any:
    return await (answer.json(content_type=None) if "json" in answer.content_type else answer.text())


@asynccontextmanager
async def running_service(
    data_dir: Path, given: Mapping[str, str] | None = None, *, preloaded: bool = False
) -> AsyncIterator[Service]:
    """Run `veristream up` with a tenant of its own, and end it.

    A preloaded one costs a tenth to start; its vision processes are not below it.
    """
    start = start_preloaded if preloaded else Role.start
    role = await start(data_dir, "up", "--port", "0", given=given)
    try:
        tenant, live_key, test_key = await make_tenant(data_dir)
        async with ClientSession(timeout=ClientTimeout(total=START_S)) as client:
            yield Service(data_dir, role.url, tenant, live_key, test_key, client, role)
    except BaseException:
        print_last(role.log)
        raise
    finally:
        await role.stop()


async def make_tenant(
    data_dir: Path, name: str = "Acme", given: Mapping[str, str] | None = None
) -> tuple[str, str, str]:
    """Create a tenant as the command line does: its id, a live key, a test key.

    Without processes of their own where all that is needed lies in the data folder.
    """
    if ELSEWHERE.isdisjoint(given or {}):
        return await _make_tenant_here(Settings(data_dir=data_dir), name)
    tenant = (await veristream_json(data_dir, "tenant", "create", name, given=given))["tenant_id"]
    live, test = await asyncio.gather(
        veristream_json(data_dir, "key", "create", "--tenant", tenant, given=given),
        veristream_json(data_dir, "key", "create", "--tenant", tenant, "--test", given=given),
    )
    return tenant, live["api_key"], test["api_key"]


async def _make_tenant_here(settings: Settings, name: str) -> tuple[str, str, str]:
    tenant = (await create_tenant(settings, name))["tenant_id"]
    live, test = [
        await create_key(
            settings, tenant, name="tests", livemode=livemode, scopes=tuple(Scope), expires_days=None
        )
        for livemode in (True, False)
    ]
    return tenant, live["api_key"], test["api_key"]


@dataclass(frozen=True, slots=True)
class Person:
    """A person with a portrait for the document and another picture as a selfie."""

    portrait: Image.Image
    selfie: Image.Image = field(init=False)

    def __post_init__(self) -> None:
        """Take the selfie."""
        object.__setattr__(self, "selfie", take_selfie(self.portrait))


def hopper() -> Person:
    """The person on matplotlib's portrait."""
    return Person(packaged_portrait())


HOPPER_FACE: Final = Face(
    box=(178.2, 143.5, 351.1, 316.2),
    score=1.07,
    points=((322.2, 190.1), (291.8, 191.3), (207.4, 196.0), (239.3, 194.3), (270.0, 252.8)),
)
"""Where the default engine finds the face on matplotlib's portrait."""


def another_photograph_of_hopper(seed: int) -> bytes:
    """Return the JPEG of another photograph of her than the portrait; the same for the same seed."""
    chance, portrait = random.Random(seed), degrade.as_pixels(packaged_portrait().convert("RGB"))
    return another_photograph(portrait, HOPPER_FACE, a_shot(chance), chance)


def astronaut() -> Person:
    """The person on scikit-image's portrait."""
    from skimage import data  # noqa: PLC0415 - a heavy package only some tests need

    photo: Any = data.astronaut  # untyped
    return Person(Image.fromarray(photo()).crop((60, 0, 400, 400)))


def encoded(image: Image.Image | bytes) -> str:
    """An image as the request carries it."""
    raw = image if isinstance(image, bytes) else to_jpeg(image)
    return base64.b64encode(raw).decode()


def request_for(
    person: Person,
    passport: PassportSpecimen | None = None,
    alterations: Alterations | None = None,
    subject_id: str = "customer-1",
    **declared: Any,
) -> dict[str, Any]:
    """The body of a request: this person with this passport."""
    page = draw_passport(passport or PassportSpecimen(), person.portrait, alterations)
    return {
        "subject_id": subject_id,
        "document": {"image_base64": encoded(page), **declared},
        "selfie_image_base64": encoded(person.selfie),
    }


def small_request(subject_id: str, shade: int = 0) -> dict[str, Any]:
    """The body of a sandbox request: two small, valid images."""
    image = Image.new("RGB", (200, 160), (40 + shade % 200, 90, 140))
    return {
        "subject_id": subject_id,
        "document": {"image_base64": encoded(image)},
        "selfie_image_base64": encoded(image),
    }


def blurred(image: Image.Image, radius: float) -> bytes:
    """An image nobody can read any more."""
    out = BytesIO()
    image.filter(ImageFilter.GaussianBlur(radius)).save(out, "JPEG")
    return out.getvalue()
