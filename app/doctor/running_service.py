"""Query the running service and compare its settings with this environment's."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from aiohttp import ClientError, ClientSession, ClientTimeout

from app.composition.restore_marker import Mark, read_mark
from app.composition.start_audit import FRONT, SettingMarks, variable
from app.composition.stores import Deployment
from app.http.listen import listening_url
from app.process.startup import installed_version
from app.settings import Settings
from schemas.audit import AuditAction, AuditEvent, AuditFilter
from schemas.base import Frozen, rfc3339
from schemas.ids import PLATFORM
from streams.ports.audit import AuditLog
from streams.ports.records import Position


class Finding(Frozen):
    """The result of one check."""

    looked_at: str
    ok: bool
    found: str
    fix: str | None = None


ANSWER_S: Final = 5.0
"""How long an address may take; `/readyz` itself gives its dependencies two seconds."""

BODY_BYTES: Final = 64 << 10
"""Most that is read of an answer: whatever listens there may send anything."""

PAGE: Final = 100

OF_ONE_PROCESS: Final = frozenset(
    {"data_dir", "host", "port", "broker_port", "health_port", "reuse_port", "front_instance"}
)
"""Settings that say where one process listens and keeps things: they may differ from process to process."""


@dataclass(frozen=True, slots=True)
class Start:
    """The audit row of a front's start."""

    id: str
    address: str | None
    """Where it listens on its machine."""
    version: str | None
    marks: Mapping[str, str]
    """The marks of the settings it was given, by variable."""

    @classmethod
    def of(cls, row: AuditEvent) -> "Start":
        """Read a row; an older version wrote no address and no marks."""
        changes = row.context.get("changes") or {}
        return cls(row.event_id, changes.get("address"), changes.get("version"), changes.get("marks") or {})


@dataclass(frozen=True, slots=True)
class Answer:
    """The response of an address."""

    url: str
    veristream: bool
    """Whether it was a front of Veristream."""
    start_id: str | None = None
    down: tuple[str, ...] = ()
    """Dependencies it cannot use, each with the cause."""


@dataclass(frozen=True, slots=True)
class ServiceState:
    """The state of the running service."""

    findings: list[Finding]
    insecure_receivers: bool | None = None
    """Whether it calls receivers over http and on its machine; None: nobody knows."""
    url: str | None = None
    """Where it answers; None: nothing of this deployment does."""


@dataclass(frozen=True, slots=True)
class ServiceCheck:
    """Queries the addresses at which the service may run."""

    settings: Settings
    url: str | None = None
    """The one address to ask; None: where the newest front began to serve, and where one would here."""
    deployment: Deployment | None = field(default=None, repr=False)
    """None: the stores cannot be opened here."""

    async def __call__(self) -> ServiceState:
        """Return what was found; an address that does not answer is a finding as well.

        Nothing serves a restored folder before it is activated: the front it names serves the original.
        """
        mark = await asyncio.to_thread(read_mark, self.settings.data_dir)
        if mark is not None:
            return ServiceState([_inactive(self.settings.data_dir, mark)])
        urls = await self._urls()
        answers = [one for one in await asyncio.gather(*map(ask, urls)) if one is not None]
        for answer in answers:
            start = await self._start_of(answer)
            if start is not None:
                return self._compared(answer, start)
        return ServiceState([self._unknown(next(iter(answers), None), urls)])

    async def _urls(self) -> list[str]:
        if self.url is not None:
            return [self.url.rstrip("/")]
        newest = None
        if self.deployment is not None:
            newest = await anext(starts(self.deployment.stores.audit_log), None)
        here = listening_url(self.settings.host, self.settings.port)
        found = [newest.address if newest else None, here, self.settings.base_url]
        return list(dict.fromkeys(url.rstrip("/") for url in found if url))

    async def _start_of(self, answer: Answer) -> Start | None:
        """Return the row of the front that answered, if it writes to the store that was opened."""
        if self.deployment is not None and answer.start_id is not None:
            async for start in starts(self.deployment.stores.audit_log):
                if start.id == answer.start_id:
                    return start
        return None

    def _unknown(self, answer: Answer | None, urls: Sequence[str]) -> Finding:
        """Return the finding that no front of this deployment answers."""
        if answer is None:
            found = f"no service runs at {' or at '.join(urls)}"
            remedy = "start it: veristream up; or name where it runs: veristream doctor --url"
        elif not answer.veristream:
            found = f"what answers at {answer.url} is not Veristream"
            remedy = "stop it or choose another port; or name where the service runs: veristream doctor --url"
        elif self.deployment is None:
            return _readiness(answer)
        else:
            found = f"the service at {answer.url} keeps its records elsewhere than {self.settings.data_dir}"
            remedy = "name its folder with --data-dir, or set the SERVICE_* variables it was started with"
        return Finding(looked_at="service", ok=False, found=found, fix=remedy)

    def _compared(self, answer: Answer, start: Start) -> ServiceState:
        findings = [_readiness(answer), _version(start)]
        if self.deployment is None or not start.marks:
            return ServiceState(findings, url=answer.url)
        marks = SettingMarks.under(self.deployment.root_key)
        name = "webhooks_allow_insecure"
        insecure = start.marks.get(variable(name)) == marks.of_value(name, value=True)
        findings.append(_settings(differences(self.settings, start, marks)))
        return ServiceState(findings, insecure, answer.url)


def _inactive(data_dir: Path, mark: Mark) -> Finding:
    found = f"none: the backup of {rfc3339(mark.taken_at)} that was restored here is not active"
    remedy = f"let it take over, once the old service has ended: veristream activate --data-dir {data_dir}"
    return Finding(looked_at="service", ok=False, found=found, fix=remedy)


def _readiness(answer: Answer) -> Finding:
    if not answer.down:
        return Finding(looked_at="service", ok=True, found=f"ready at {answer.url}")
    found = f"not ready at {answer.url}: {'; '.join(answer.down)}"
    return Finding(looked_at="service", ok=False, found=found, fix="see the dependency it names")


def _version(start: Start) -> Finding:
    here = installed_version()
    if start.version == here:
        return Finding(looked_at="version", ok=True, found=here)
    found = f"the service runs {start.version}, installed here is {here}"
    return Finding(looked_at="version", ok=False, found=found, fix="start the service again")


def _settings(different: Sequence[str]) -> Finding:
    if not different:
        return Finding(looked_at="settings", ok=True, found="the service runs under those given here")
    remedy = "run this under the settings of the service, or start the service again under these"
    found = f"not those of the service: {'; '.join(different)}"
    return Finding(looked_at="settings", ok=False, found=found, fix=remedy)


def differences(settings: Settings, start: Start, marks: SettingMarks) -> list[str]:
    """Name the settings in which the service differs from this environment, never a value.

    A setting that is given one time and has its default the other time is the same.
    """
    found = []
    for name, info in Settings.model_fields.items():
        if name in OF_ONE_PROCESS:
            continue
        usual = marks.of_value(name, info.get_default(call_default_factory=True, validated_data={}))
        here, there = marks.of_value(name, getattr(settings, name)), start.marks.get(variable(name), usual)
        if here == there:
            continue
        given, set_there = name in settings.model_fields_set, variable(name) in start.marks
        how = "another value" if given and set_there else "set here alone" if given else "set there alone"
        found.append(f"{variable(name)} ({how})")
    return found


async def starts(audit_log: AuditLog) -> AsyncIterator[Start]:
    """Read what fronts wrote when they began to serve, newest first."""
    before: Position | None = None
    chosen = AuditFilter(action=AuditAction.SERVICE_STARTED, subject_id=FRONT)
    while rows := await audit_log.page(PLATFORM, chosen, limit=PAGE, before=before):
        for row in rows:
            yield Start.of(row)
        before = Position(rows[-1].created_at, rows[-1].event_id)


async def ask(url: str) -> Answer | None:
    """Return what `/readyz` of an address answers; None when nothing does."""
    try:
        async with (
            ClientSession(timeout=ClientTimeout(total=ANSWER_S)) as client,
            client.get(f"{url}/readyz", allow_redirects=False) as answer,
        ):
            status, raw = answer.status, await answer.content.read(BODY_BYTES)
    except (ClientError, OSError, TimeoutError, ValueError):
        return None
    body = _object(raw)
    dependencies = body.get("dependencies")
    if status not in {HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE} or not isinstance(dependencies, dict):
        return Answer(url, veristream=False)
    return Answer(url, veristream=True, start_id=body.get("start_id"), down=_down(dependencies))


def _down(dependencies: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(
        f"{name}: {state.get('cause')}"
        for name, state in dependencies.items()
        if isinstance(state, dict) and state.get("status") != "up"
    )


def _object(raw: bytes) -> dict[str, Any]:
    try:
        read = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}
