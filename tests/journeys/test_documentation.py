"""The shell blocks of the README and the pages do what they say, run as they are printed."""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from tests.documentation import ROOT, SHELLS, Block, blocks, name_of
from tests.engines.jvm import free_ports
from tests.journeys.forked_commands import forked_commands
from tests.journeys.service import START_S, environment
from tests.preloaded_forker import VARIABLE, open_preloaded_forker

UNMARKED: Final = [block for block in blocks() if block.language in SHELLS and block.mark is None]

FIRST: Final = next(block for block in UNMARKED if "/v1/verifications" in block.text)
"""The first verification of the README."""

PORT: Final = "8080"
"""The port that the blocks name; a test takes a free one."""


def prepare(folder: Path) -> dict[str, str]:
    """Put this Python and this veristream where the blocks look for them; returns the environment."""
    programs = folder / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name, command in (("veristream", "-m app "), ("python", "")):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {command}"$@"\n', encoding="utf-8")
        program.chmod(0o700)
    (folder / "tests").symlink_to(ROOT / "tests")
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    return environment({"PYTHONPATH": path, "SERVICE_VISION_WORKERS": "1"})


async def run(folder: Path, script: str) -> tuple[int | None, str, str]:
    """Run a script in a folder as a user would paste it, `veristream` in preloaded processes."""
    given = prepare(folder) | {VARIABLE: open_preloaded_forker()}
    async with forked_commands(folder / ".venv" / "bin" / "veristream"):
        return await run_shell(folder, script, given)


async def run_shell(folder: Path, script: str, given: Mapping[str, str]) -> tuple[int | None, str, str]:
    """Run a script in a folder: exit status, stdout, stderr."""
    pipe = asyncio.subprocess.PIPE
    shell = await asyncio.create_subprocess_exec(
        "bash", "-euo", "pipefail", "-c", script,
        cwd=folder, env=given, stdout=pipe, stderr=pipe, start_new_session=True,
    )  # fmt: skip
    try:
        async with asyncio.timeout(2 * START_S):
            out, err = await shell.communicate()
    finally:
        with suppress(ProcessLookupError):  # what a block that failed left running
            os.killpg(shell.pid, signal.SIGKILL)
    return shell.returncode, out.decode(), err.decode()


@pytest.mark.parametrize(
    "block",
    [block for block in UNMARKED if block != FIRST],
    ids=lambda block: f"{name_of(block.page)}: {block.text[:40]}",
)
async def test_a_block_runs_as_it_is_printed(block: Block, tmp_path: Path) -> None:
    status, out, err = await run(tmp_path, block.text.replace(PORT, str(free_ports(1)[0])))

    assert status == 0, out + err


async def test_the_first_verification_of_the_readme_is_approved(tmp_path: Path) -> None:
    script = FIRST.text.replace(PORT, str(free_ports(1)[0]))
    status, out, err = await run_shell(tmp_path, script, prepare(tmp_path))  # nothing is preloaded here

    assert (status, '"status":"APPROVED"' in out.replace(" ", "")) == (0, True), out + err
