"""An evaluation that kills its worker is not begun for ever: the third time it ends as FAILED/HOLD (S42)."""

import signal
import subprocess
import sys
from pathlib import Path

from app.adapters.files.evaluation_attempts import FilesystemTries
from schemas.enums import DecisionOutcome, VerificationStatus
from schemas.ids import VerificationId
from streams.verification.evaluation_limits import TRIES_MAX
from streams.verification.handler import EvaluateVerification
from tests.handlers.verification_stage import Scene, Stage, Trouble

DYING = """
import asyncio, os, signal, sys
from pathlib import Path
from app.adapters.files.evaluation_attempts import FilesystemTries

asyncio.run(FilesystemTries(Path(sys.argv[1])).begin(sys.argv[2]))
os.kill(os.getpid(), signal.SIGKILL)
"""


def die_while_evaluating(folder: Path, verification_id: VerificationId) -> None:
    """Begin an evaluation in a process of its own, which is killed before the end."""
    command = [sys.executable, "-c", DYING, str(folder), verification_id]
    assert subprocess.run(command, check=False, timeout=60).returncode == -signal.SIGKILL  # noqa: S603 - ours


def under_way(folder: Path) -> list[str]:
    """Evaluations that are counted."""
    return [path.name for path in folder.iterdir()]


def handler_of(stage: Stage, folder: Path) -> EvaluateVerification:
    """The stage's handler, counting its tries in a folder."""
    handler = stage.handler
    handler._tries = FilesystemTries(folder)
    return handler


async def test_s42_an_evaluation_that_killed_its_worker_twice_is_held(tmp_path: Path) -> None:
    stage = Stage()
    command = await stage.keep()
    for _ in range(TRIES_MAX):
        die_while_evaluating(tmp_path, command.verification_id)

    await handler_of(stage, tmp_path)(command)

    verification = (await stage.stored()).verification
    assert (verification.status, verification.decision) == (VerificationStatus.FAILED, DecisionOutcome.HOLD)
    assert stage.scene.calls == []
    assert under_way(tmp_path) == []


async def test_s42_an_evaluation_whose_worker_died_once_is_made(tmp_path: Path) -> None:
    stage = Stage()
    command = await stage.keep()
    die_while_evaluating(tmp_path, command.verification_id)

    await handler_of(stage, tmp_path)(command)

    assert (await stage.stored()).verification.status is VerificationStatus.APPROVED


async def test_s42_an_evaluation_that_fails_in_a_living_worker_is_not_counted(tmp_path: Path) -> None:
    stage = Stage(Scene(trouble={"decode": Trouble.BROKEN}))

    await handler_of(stage, tmp_path)(await stage.keep())

    assert under_way(tmp_path) == []
