"""Count evaluations that began and did not end, in files that survive a killed process."""

import asyncio
from pathlib import Path

from typing_extensions import override

from schemas.ids import VerificationId
from streams.verification.evaluation_limits import EvaluationAttempts


class FilesystemTries(EvaluationAttempts):
    """One small file for each evaluation under way, in a folder of the worker's own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder

    @override
    async def begin(self, verification_id: VerificationId) -> int:
        return await asyncio.to_thread(self._begin, self._folder / verification_id)

    @override
    async def end(self, verification_id: VerificationId) -> None:
        path = self._folder / verification_id
        await asyncio.to_thread(path.unlink, missing_ok=True)

    def _begin(self, path: Path) -> int:
        with path.open("ab") as file:
            file.write(b".")  # one byte a try
            return file.tell()
