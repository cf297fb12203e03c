"""What `veristream doctor` says of the service it asks, and of the invariants, in words."""

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from app.composition.restore_marker import Mark, remove_mark, write_mark
from app.composition.start_audit import SettingMarks, write_front_start
from app.composition.stores import Deployment, open_deployment
from app.doctor.invariants.check import InvariantCheck, Report, print_report
from app.doctor.running_service import Finding, ServiceCheck
from app.http.listen import listening_url
from app.process.startup import installed_version
from app.settings import Settings
from streams.invariants.rules import COUNTED, MEANING, Invariant, Violation
from tests.builders import NOW
from tests.http.support import open_front


async def down() -> str | None:
    """A dependency that cannot be used."""
    return "connection refused"


@asynccontextmanager
async def running(deployment: Deployment, **given: Any) -> AsyncIterator[str]:
    """A front that began to serve under these settings and wrote so into the store; yields its address."""
    probes = {"broker": down} if given.pop("broken", False) else {}
    marks = SettingMarks.under(deployment.root_key)
    settings = Settings(data_dir=Path("elsewhere"), port=1, **given)
    commit = deployment.stores.journal.commit
    start_id = await write_front_start(commit, settings, marks, "http://127.0.0.1:1")
    async with open_front(probes=probes, start_id=start_id) as front:
        yield front.url


async def look(deployment: Deployment, url: str, **given: Any) -> tuple[dict[str, Finding], bool | None]:
    """What the doctor finds about the service at an address, under these settings."""
    settings = Settings(data_dir=Path("here"), port=2, **given)
    found = await ServiceCheck(settings, url, deployment)()
    return {one.looked_at: one for one in found.findings}, found.insecure_receivers


@pytest.fixture
async def deployment(tmp_path: Path) -> AsyncIterator[Deployment]:
    """The stores of a deployment."""
    async with open_deployment(Settings(data_dir=tmp_path)) as opened:
        yield opened


async def test_a_service_under_the_settings_given_here_is_ready_and_the_same(deployment: Deployment) -> None:
    token = SecretStr(secrets.token_urlsafe(32))
    async with running(deployment, answer_timeout_s=30.0, platform_operator_token=token) as url:
        found, insecure = await look(deployment, url, platform_operator_token=token)

    assert [one.ok for one in found.values()] == [True, True, True]
    assert found["service"].found == f"ready at {url}"
    assert (found["version"].found, insecure) == (installed_version(), False)


async def test_settings_that_differ_are_named_and_never_shown(deployment: Deployment) -> None:
    async with running(deployment, answer_timeout_s=12.5, webhooks_allow_insecure=True) as url:
        found, insecure = await look(deployment, url, answer_timeout_s=13.5, rate_limits="off")

    differing = found["settings"]
    assert (differing.ok, insecure) == (False, True)
    assert differing.found.partition(": ")[2].split("; ") == [
        "SERVICE_RATE_LIMITS (set here alone)",
        "SERVICE_ANSWER_TIMEOUT_S (another value)",
        "SERVICE_WEBHOOKS_ALLOW_INSECURE (set there alone)",
    ]
    assert not [value for value in ("12.5", "13.5", "off") if value in differing.found]


async def test_a_dependency_that_is_down_is_named_with_its_cause(deployment: Deployment) -> None:
    async with running(deployment, broken=True) as url:
        found, _ = await look(deployment, url)

    assert (found["service"].ok, "broker: connection refused" in found["service"].found) == (False, True)


async def test_where_no_service_runs_the_address_is_said(deployment: Deployment) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = f"http://127.0.0.1:{taken.getsockname()[1]}"
    found, insecure = await look(deployment, free)

    assert list(found) == ["service"]
    assert (found["service"].ok, insecure) == (False, None)
    assert found["service"].found == f"no service runs at {free}"
    assert "veristream up" in (found["service"].fix or "")


async def test_a_restored_folder_has_no_service_before_it_is_activated(
    deployment: Deployment, tmp_path: Path
) -> None:
    """The last start it knows is one of the service that the backup was taken of, which may still run."""
    async with running(deployment) as url:
        settings = Settings(data_dir=tmp_path)
        write_mark(settings.data_dir, Mark(backup_id="bak_1", taken_at=NOW, complete=True))
        (found,) = (await ServiceCheck(settings, url, deployment)()).findings
        remove_mark(settings.data_dir)
        active, *_ = (await ServiceCheck(settings, url, deployment)()).findings

    assert (found.ok, "is not active" in found.found, active.ok) == (False, True, True)
    assert f"veristream activate --data-dir {settings.data_dir}" in (found.fix or "")


async def test_without_an_address_both_the_last_start_and_these_settings_are_asked(
    deployment: Deployment,
) -> None:
    async with running(deployment):
        settings = Settings(host="0.0.0.0", port=2)  # noqa: S104 - nothing is bound
        (found,) = (await ServiceCheck(settings, None, deployment)()).findings

    assert listening_url(settings.host, settings.port) == "http://127.0.0.1:2"
    assert found.found == "no service runs at http://127.0.0.1:1 or at http://127.0.0.1:2"


async def test_a_service_over_another_store_is_distinguished(deployment: Deployment, tmp_path: Path) -> None:
    async with open_deployment(Settings(data_dir=tmp_path / "another")) as another, running(another) as url:
        found, _ = await look(deployment, url)

    assert "keeps its records elsewhere than here" in found["service"].found
    assert "--data-dir" in (found["service"].fix or "")


async def test_what_is_not_veristream_is_not_taken_for_it(deployment: Deployment) -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n[1]")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        found, _ = await look(deployment, url)

    assert found["service"].found == f"what answers at {url} is not Veristream"


def test_each_invariant_is_said_in_words_with_what_was_counted(capsys: pytest.CaptureFixture[str]) -> None:
    looks = [
        InvariantCheck(
            invariant=invariant,
            meaning=MEANING[invariant],
            counted=COUNTED[invariant],
            looked_at=number,
            violations=int(invariant is Invariant.I5),
        )
        for number, invariant in enumerate(Invariant)
    ]
    broken = Violation(invariant=Invariant.I5, about="ver_1", found="went from [APPROVED] to REJECTED")

    print_report(Report(looks=tuple(looks), violations=(broken,)))

    output = capsys.readouterr().out
    assert [invariant for invariant in Invariant if MEANING[invariant] not in output] == []
    assert "7 references to evidence and files of evidence" in output
    assert "I5  BROKEN" in output
    assert "I5 ver_1: went from [APPROVED] to REJECTED" in output
    assert output.endswith("1 violations of 1 invariants.\n")
