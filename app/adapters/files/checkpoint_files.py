"""Append-only files of audit checkpoints: one a month, one line for each checkpoint."""

import asyncio
import os
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from typing_extensions import override

from app.adapters.files.data_dir import make_private
from app.adapters.security.crypto import sync_folder
from schemas.checkpoints import Checkpoint
from schemas.problems import StoreUnavailable
from streams.audit.checkpointing import CheckpointCopy

MONTHS_NEEDED: Final = 2
"""A month's file begins with every head; the one before it is needed while that beginning is written."""


class CheckpointFiles(CheckpointCopy):
    """Files `<folder>/<year>-<month>.jsonl`, for their owner alone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @override
    async def read(self, *, everything: bool = False) -> Sequence[bytes]:
        try:
            return await asyncio.to_thread(self._read, everything=everything)
        except OSError as error:
            raise StoreUnavailable(f"{self._folder} cannot be read: {error.strerror}") from error

    @override
    async def append(self, checkpoints: Sequence[Checkpoint]) -> None:
        try:
            await asyncio.to_thread(self._append, checkpoints)
        except OSError as error:
            raise StoreUnavailable(f"{self._folder} cannot be written: {error.strerror}") from error

    def _read(self, *, everything: bool) -> list[bytes]:
        files = sorted(self._folder.glob("[0-9]*-[0-9]*.jsonl"))
        lines: list[bytes] = []
        for file in files if everything else files[-MONTHS_NEEDED:]:
            whole, _, _ = file.read_bytes().rpartition(b"\n")  # behind it an append was cut short
            lines += whole.split(b"\n") if whole else []
        return lines

    def _append(self, checkpoints: Sequence[Checkpoint]) -> None:
        make_private(self._folder)
        for month, group in groupby(checkpoints, lambda one: f"{one.at:%Y-%m}"):
            self._append_to(self._folder / f"{month}.jsonl", b"".join(one.line + b"\n" for one in group))
        sync_folder(self._folder)

    def _append_to(self, path: Path, lines: bytes) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "rb+", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            if size and os.pread(file.fileno(), 1, size - 1) != b"\n":
                lines = b"\n" + lines  # an append was cut short: what it left is a line of its own
            written = 0
            while written < len(lines):
                written += os.write(file.fileno(), lines[written:])
            os.fsync(file.fileno())
