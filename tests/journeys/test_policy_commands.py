"""`veristream policy`: files are validated and shown offline, tried on and published to a running service."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from streams.policies.loading import digest, first_text, load
from tests.http.support import TEST, Front, open_front
from tests.http.test_backtests import runner_of
from tests.http.test_policy_shadow import PUBLISHED, pay

WRONG = first_text().replace(b"metric: COUNT, window: 15m", b"metric: COUNTS, window: 16m")


@pytest.fixture
async def front() -> AsyncIterator[Front]:
    """A front."""
    async with open_front() as opened:
        yield opened


async def run(*arguments: str, sent: bytes = b"") -> tuple[int, str]:
    """Run a command with this on stdin: its exit status, and what it printed."""
    pipe = asyncio.subprocess.PIPE
    command = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "app", "policy", *arguments, stdin=pipe, stdout=pipe
    )
    async with asyncio.timeout(120):
        out, _ = await command.communicate(sent)
    return command.returncode or 0, out.decode()


async def test_a_file_with_errors_is_one_line_each_and_status_one(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_bytes(WRONG)

    status, printed = await run("validate", str(file))

    assert status == 1
    assert printed.splitlines() == [
        f"{file}:5:38: METRIC_UNKNOWN: `COUNTS` is no metric. Did you mean `COUNT`?",
        f"{file}:5:54: WINDOW_UNKNOWN: `16m` is no window. Did you mean `1m`?",
    ]


async def test_stdin_is_validated_and_reported_to_programs() -> None:
    good, valid = await run("validate", "-", "--json", sent=first_text())
    bad, refused = await run("validate", "-", "--json", sent=WRONG)

    assert (good, json.loads(valid)["sha256"]) == (0, digest(first_text()))
    assert bad == 1
    assert [error["line"] for error in json.loads(refused)["errors"]] == [5, 5]


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["yaml", "json"])
async def test_what_is_shown_is_the_same_policy(form: tuple[str, ...]) -> None:
    status, printed = await run("show", "-", *form, sent=first_text())

    assert status == 0
    assert load(printed.encode()) == load(first_text())


async def test_a_file_is_published_to_a_running_service(front: Front, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_bytes(first_text() + b"# ours\n")
    given = (str(file), "--key", TEST, "--url", front.url, "--json")

    first, again = await run("publish", *given), await run("publish", *given)

    published = {"revision": 2, "sha256": digest(first_text() + b"# ours\n")}
    assert [(status, json.loads(printed)) for status, printed in (first, again)] == [(0, published)] * 2
    assert (await front.ask("GET", "/v1/policies/transactions")).json["published"]["revision"] == 2


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
async def test_a_file_is_tried_on_what_a_running_service_decided(
    front: Front, tmp_path: Path, form: tuple[str, ...]
) -> None:
    """A second payment within a day would have been flagged."""
    await pay(front, 1, "60")
    await pay(front, 2, "60", subject_id="user-1")
    file = tmp_path / "policy.yaml"
    file.write_bytes(PUBLISHED.replace(b'"100"', b'"50"'))
    given = ("backtest", str(file), "--key", TEST, "--url", front.url, *form)

    async with runner_of(front).looking(0.01):
        status, printed = await run(*given)

    assert status == 0
    if form:
        assert json.loads(printed)["result"]["matrix"] == {"ALLOW": {"ALLOW": 1, "FLAG": 1}}
    else:
        assert printed.splitlines()[:3] == ["evaluated  2", "changed    1", "unknown    0"]
        assert "ALLOW   FLAG   1" in printed
    assert (await front.ask("GET", "/v1/policies/transactions")).json["published"]["revision"] == 1


async def test_a_refused_key_or_an_absent_service_is_status_two(front: Front, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_bytes(first_text())

    refused = await run("publish", str(file), "--key", "nobody", "--url", front.url)
    absent = await run("publish", str(file), "--key", TEST, "--url", "http://127.0.0.1:1")
    nowhere = await run("validate", str(tmp_path / "other.yaml"))

    assert [status for status, _ in (refused, absent, nowhere)] == [2, 2, 2]
