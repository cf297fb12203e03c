"""Check that the disks under a deployment's files accept writes, by the name of what is stored there."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from app.settings import Settings, blobs_dir_of

LEAST_FREE_BYTES: Final = 32 << 20
"""One verification writes two images of at most 10 MB each, their rows and its records."""

_BLOCK: Final = bytes(4096)


class DiskProbe:
    """Report full disks; checks in a thread.

    It asks how much is free, and writes one block into a file without a name: a quota, a limit of the
    process or a disk that turned read-only leave room that cannot be used.
    """

    def __init__(self, places: Mapping[str, Path], *, least_free_bytes: int = LEAST_FREE_BYTES) -> None:
        self._places = dict(places)
        self._least = least_free_bytes

    async def __call__(self) -> str | None:
        """Return what cannot be written and why, or None."""
        return await asyncio.to_thread(lambda: "; ".join(self._causes())) or None

    def _causes(self) -> Iterator[str]:
        for name, folder in self._places.items():
            cause = self._cause(folder)
            if cause is not None:
                yield f"{name}: {cause}"

    def _cause(self, folder: Path) -> str | None:
        there = nearest_existing(folder)
        try:
            free = shutil.disk_usage(there).free
            if free < self._least:
                return f"the disk is full ({free >> 20} MiB are free, {self._least >> 20} MiB are needed)"
            if folder.is_dir():  # one that is made later is made by who needs it
                with tempfile.TemporaryFile(dir=there, buffering=0) as proof:
                    proof.write(_BLOCK)
        except OSError as error:
            return f"the disk cannot be written ({os.strerror(error.errno or 0)})"
        return None


def nearest_existing(folder: Path) -> Path:
    """Return the folder, or the closest one above it that exists: a folder may be made at its first use."""
    return next(one for one in (folder.absolute(), *folder.absolute().parents) if one.exists())


def places_of(settings: Settings) -> dict[str, Path]:
    """Return where this deployment writes on disks of this machine."""
    places = {"evidence": blobs_dir_of(settings)}
    if not settings.cassandra_contact_points:
        places["store"] = settings.data_dir
    if settings.kafka_bootstrap is None:
        places["broker"] = settings.broker_dir
    return places
