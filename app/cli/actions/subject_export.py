"""What the commands about subjects do."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

from app.adapters.security.crypto import sync_folder
from app.composition.stores import new_id, now, open_existing
from app.composition.tenants import known_tenant
from app.http.subject_export import SubjectExport, exported_row
from app.process.startup import CannotStart
from app.settings import Settings
from schemas.ids import SubjectId
from schemas.problems import NotFound, VeristreamError
from schemas.verifications import SUBJECT_PATTERN
from streams.audit.rows import act
from streams.tenants.handler import OPERATOR


async def export(settings: Settings, tenant: str, subject: str, destination: Path) -> dict[str, Any]:
    """Write the export of a subject, of live and test data, to a new file of its owner alone.

    Raises:
        CannotStart: No such tenant or subject, or the file is there or cannot be written.
    """
    if re.fullmatch(SUBJECT_PATTERN, subject) is None:
        raise CannotStart(f"no subject can be named {subject!r}")
    async with open_existing(settings) as deployment:
        tenant_id, subject_id = await known_tenant(deployment, tenant), SubjectId(subject)
        made = SubjectExport(deployment.stores, tenant_id, subject_id, (True, False))
        try:
            await made.require_known()
            if await asyncio.to_thread(destination.exists):
                raise CannotStart(f"{destination} is there already; name a new file")
            row = exported_row(new_id("exp"), subject_id, OPERATOR, now())
            await deployment.stores.journal.commit(act(tenant_id, row))
            size = await _write(destination, made.chunks(now()))
        except NotFound as error:
            raise CannotStart(f"tenant {tenant} has no subject {subject}") from error
        except (OSError, VeristreamError) as error:
            raise CannotStart(f"the export was not written: {error}") from error
    return {"subject_id": subject, "file": str(destination), "bytes": size}


async def _write(destination: Path, chunks: AsyncIterator[bytes]) -> int:
    """Write a file that appears when it is whole; returns its size."""
    draft = destination.with_name(f".{destination.name}.{uuid4().hex}.partial")
    descriptor = await asyncio.to_thread(os.open, draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    size = 0
    try:
        with os.fdopen(descriptor, "wb") as file:
            async for chunk in chunks:
                size += await asyncio.to_thread(file.write, chunk)
            file.flush()
            await asyncio.to_thread(os.fsync, file.fileno())
        await asyncio.to_thread(os.link, draft, destination)
    finally:
        await asyncio.to_thread(os.unlink, draft)
    await asyncio.to_thread(sync_folder, destination.parent)
    return size
