"""The commands about subjects: the customers that tenants verify."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import typer

from app.cli.options import AsJson, DataDir, TenantOption, settings_of
from app.process.output import say_pairs
from app.process.startup import CannotStart
from app.settings import Settings
from schemas.ids import SubjectId
from schemas.problems import NotFound, Refused, VeristreamError

subjects = typer.Typer(no_args_is_help=True, help="Subjects: the customers that tenants verify.")


@subjects.command("erase")
def subject_erase(
    subject_id: Annotated[str, typer.Argument(metavar="SUBJECT", help="The tenant's id of the subject.")],
    tenant: TenantOption,
    reason: Annotated[str, typer.Option("--reason", help="Why; it is stored sealed and shown in the proof.")],
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Erase a subject: its data key is destroyed, its evidence removed, its open sessions end.

    The running service does so within two minutes, unless the tenant's four_eyes asks for a member's approval
    first. Run it again to see how far it is. POST /v1/subjects/{subject_id}/erase does the same.

    Try:

      veristream subject erase customer-17 --tenant ten_… --reason "asked by letter"
    """
    say_pairs(asyncio.run(erase(settings_of(data_dir), tenant, subject_id, reason)), as_json=as_json)


@subjects.command("export")
def subject_export(
    subject_id: Annotated[str, typer.Argument(metavar="SUBJECT", help="The tenant's id of the subject.")],
    destination: Annotated[Path, typer.Argument(metavar="FILE", help="A new file whose name ends in .zip.")],
    tenant: TenantOption,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Write all that is stored of a subject to a ZIP; works while the service runs, and is audited.

    It has the subject's images in the clear: hand it over on a way that only they can read.

    Try:

      veristream subject export customer-1 customer-1.zip --tenant ten_…
    """
    exported = asyncio.run(export(settings_of(data_dir), tenant, subject_id, destination))
    say_pairs(exported, as_json=as_json)


async def erase(settings: Settings, tenant: str, subject_id: str, reason: str) -> dict[str, str]:
    """Request the erasure of a subject and return how far it is; the running service carries it out.

    Raises:
        CannotStart: No such tenant or subject, or the subject is on legal hold.
    """
    from app.composition.stores import known_tenant, now, open_existing
    from streams.retention.erasure_requests import ErasureRequests
    from streams.tenants.handler import OPERATOR

    async with open_existing(settings) as deployment:
        tenant_id = await known_tenant(deployment, tenant)
        requests = ErasureRequests(deployment.stores, deployment.stores.journal.commit, now)
        try:
            erasure = await requests.request(tenant_id, SubjectId(subject_id), reason, OPERATOR)
        except NotFound as error:
            raise CannotStart(f"tenant {tenant} has no such subject; its id is case-sensitive") from error
        except Refused as error:
            raise CannotStart(f"{error.refusal.detail} PATCH /v1/control/settings lifts it.") from error
        return {"erasure_id": erasure.erasure_id, "status": erasure.status.value}


async def export(settings: Settings, tenant: str, subject: str, destination: Path) -> dict[str, Any]:
    """Write the export of a subject, of live and test data, to a new file of its owner alone.

    Raises:
        CannotStart: No such tenant or subject, or the file is there or cannot be written.
    """
    from app.adapters.security.crypto import Purpose
    from app.composition.stores import known_tenant, new_id, now, open_existing
    from app.http.subject_export import SubjectExport, exported_row
    from schemas.verifications import SUBJECT_PATTERN
    from streams.audit.commit import act
    from streams.tenants.handler import OPERATOR
    from streams.transactions.keyed_hashes import KeyedHashes

    if re.fullmatch(SUBJECT_PATTERN, subject) is None:
        raise CannotStart(f"no subject can be named {subject!r}")
    async with open_existing(settings) as deployment:
        tenant_id, subject_id = await known_tenant(deployment, tenant), SubjectId(subject)
        hashes = KeyedHashes(deployment.keys.derive(Purpose.TRANSACTION_HASHES))
        made = SubjectExport(deployment.stores, hashes, tenant_id, subject_id, (True, False))
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
    from app.adapters.security.crypto import sync_folder

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
