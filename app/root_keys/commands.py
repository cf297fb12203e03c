"""What the commands about the root key do: the steps of the rotation, and the file that holds the keys."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from app.adapters.files.data_dir import ROOT_KEY_FILE
from app.adapters.security.crypto import KEY_BYTES, RootKey, SenderKey, replace_key_file
from app.adapters.security.derived_keys import id_of
from app.adapters.security.root_key_store import RootKeyStore
from app.composition.stores import Deployment, now, open_existing, open_root_keys
from app.process.output import err
from app.process.startup import CannotStart
from app.root_keys.rotation import RootKeys, begin, count_use, finish, read_root_keys, remove_retired, rewrap
from app.settings import PREFIX, Settings
from schemas.audit import AuditAction
from schemas.base import rfc3339
from schemas.ids import PLATFORM, derive_id
from schemas.problems import VeristreamError
from streams.audit.commit import act
from streams.audit.rows import write_row
from streams.tenants.handler import OPERATOR

REMOVE_NEXT = "a minute later: veristream root-key remove; no process has to be restarted"
"""What a process that runs began to write under the old key is finished by then."""


async def rotate(settings: Settings) -> dict[str, Any]:
    """Begin a rotation, or go on with the one that was begun, and bring it to its end.

    Raises:
        CannotStart: There is no deployment, or the keys that were given do not allow it.
    """
    async with _opened(settings) as (deployment, store, keys):
        following = await asyncio.to_thread(_following, settings, keys)
        before = keys.current if not keys.is_rotating else None
        begun = await begin(store, _with(keys, following), following, now())
        await asyncio.to_thread(_write_file, begun.current)
        with err.status("wrapping data keys") as shown:
            count = await rewrap(store, begun, lambda seen: shown.update(f"{seen} data keys looked at"))
        replaced = begun.retired() or (id_of(before) if before else "")
        await _write_row(
            deployment,
            AuditAction.ROOT_KEY_ROTATED,
            replaced,
            id_of(begun.current),
            "The root key was rotated.",
        )
        await finish(store, await read_root_keys(store, begun.current), now())
        return {
            "current": id_of(begun.current),
            "replaced": replaced,
            "rewrapped": count,
            "next": REMOVE_NEXT,
        }


async def status(settings: Settings) -> dict[str, Any]:
    """Return which root key is the current one, and what each of them wraps.

    Raises:
        CannotStart: There is no deployment, or its key was not given.
    """
    async with _opened(settings) as (_, store, keys):
        use = await count_use(store, keys)
        rotation = keys.state.keyset.rotation
        following = "nothing; to replace the root key: veristream root-key rotate"
        stage = "none"
        if rotation is not None:
            ended = rotation.finished_at
            stage = "under way" if ended is None else f"finished at {rfc3339(ended)}"
            following = "veristream root-key rotate" if keys.is_rotating else REMOVE_NEXT
        return {
            "current": id_of(keys.current),
            "rotation": stage,
            "data_keys": use.counted,
            "unreadable": use.unreadable,
            "next": following,
        }


async def remove(settings: Settings) -> dict[str, Any]:
    """Remove the key that was replaced.

    Raises:
        CannotStart: There is none, or a data key still needs it.
    """
    async with _opened(settings) as (deployment, store, keys):

        async def forget(current: RootKey, retired: str) -> None:
            await asyncio.to_thread(_write_file, replace(current, others=()))
            await _write_row(
                deployment,
                AuditAction.ROOT_KEY_REMOVED,
                retired,
                id_of(current),
                "The root key before was removed.",
            )

        retired = await remove_retired(store, keys, forget)
        following = "keep a copy of it for as long as backups taken under it are kept"
        if settings.root_key is not None:
            following = f"take it out of {PREFIX}ROOT_KEY and restart every process; {following}"
        return {"removed": retired, "current": id_of(keys.current), "next": following}


@asynccontextmanager
async def _opened(settings: Settings) -> AsyncIterator[tuple[Deployment, RootKeyStore, RootKeys]]:
    """Open the deployment, which checks the key that was given, and what the store says about root keys."""
    async with open_existing(settings) as deployment, open_root_keys(settings) as store:
        if store is None or isinstance(deployment.keys, SenderKey):
            raise CannotStart(f"the root key itself is needed: give this command {PREFIX}ROOT_KEY_FILE")
        try:
            yield deployment, store, await read_root_keys(store, deployment.keys)
        except VeristreamError as error:
            raise CannotStart(str(error)) from error


def _following(settings: Settings, keys: RootKeys) -> RootKey:
    """Return the key that is to be the current one; one that is drawn is in the file by then. Blocking.

    Raises:
        CannotStart: A key is missing, or the one before was not removed yet.
    """
    rotation = keys.state.keyset.rotation
    if rotation is not None and rotation.finished_at is None:
        for needed in (rotation.before, rotation.after):
            if keys.named(needed) is None:
                raise CannotStart(f"the rotation under way needs root key {needed} as well; give it both")
        return keys.named(rotation.after) or keys.current
    if rotation is not None:
        raise CannotStart(
            f"root key {rotation.before} was replaced by {rotation.after} and is still there; remove it "
            "first with: veristream root-key remove"
        )
    candidate = keys.candidate()
    if candidate is not None:
        return candidate
    if settings.root_key is not None:
        raise CannotStart(
            f"{PREFIX}ROOT_KEY holds no other key than the current one. Put the new one (openssl rand "
            "-base64 32) behind it on a line of its own, restart every process with both, and run this again"
        )
    file = settings.data_dir / ROOT_KEY_FILE
    drawn = RootKey(os.urandom(KEY_BYTES), file=file)
    replace_key_file(file, [*keys.every, drawn])
    return drawn


def _with(keys: RootKeys, following: RootKey) -> RootKeys:
    if keys.named(id_of(following)) is not None:
        return keys
    current = replace(keys.current, others=(*keys.current.others, following))
    return RootKeys(keys.state, current)


def _write_file(current: RootKey) -> None:
    """Let the file hold the current key, then the others; configured keys are left alone. Blocking."""
    if current.file is not None:
        replace_key_file(current.file, [current, *current.others])


async def _write_row(
    deployment: Deployment, action: AuditAction, before: str, after: str, detail: str
) -> None:
    """Write the row of a step, once however often the step is taken."""
    row = write_row(
        derive_id("aud", action, f"{before}:{after}"),
        action,
        OPERATOR,
        "root-key",
        now(),
        detail=detail,
        changes={"before": before, "after": after},
    )
    await deployment.stores.journal.commit(act(PLATFORM, row))
