"""What the commands about backups do, and how they tell it."""

import asyncio
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from app.adapters.files.data_dir import ROOT_KEY_FILE
from app.adapters.security.crypto import RootKey
from app.backup.restoring import activate_restored, key_for, restore_backup, verify_backup
from app.backup.taking import take_backup
from app.composition.existing_deployment import require_deployment
from app.composition.restore_marker import FORK_WARNING
from app.composition.stores import open_root_keys
from app.process.output import err, say_json, say_pairs, say_warning
from app.process.startup import CannotStart
from app.root_keys.rotation import read_root_keys
from app.settings import Settings
from schemas.problems import VeristreamError


def backup(settings: Settings, destination: Path, *, as_json: bool) -> None:
    """Take a backup and say what it holds.

    Raises:
        CannotStart: It cannot be taken.
    """
    _require_embedded(settings)
    require_deployment(settings)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # what was allowed before is often enough
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with _telling("taking the backup") as tell:
        made = take_backup(settings, destination, asyncio.run(_current_key(settings)), tell)
    if made.missing_evidence:
        say_warning(
            f"{len(made.missing_evidence)} pieces of evidence have no file in this deployment, so the backup "
            "has none either; see: veristream doctor --invariants"
        )
    told = _pairs(destination, made.backup_id, str(made.taken_at), len(made.files), made.size)
    say_pairs({**told, "missing_evidence": len(made.missing_evidence)}, as_json=as_json)


async def _current_key(settings: Settings) -> RootKey:
    """Return the root key that the data is sealed under; no other may be needed to open the backup."""
    async with open_root_keys(settings) as store:
        if store is None:
            return key_for(settings)
        try:
            keys = await read_root_keys(store, key_for(settings))
        except VeristreamError as error:
            raise CannotStart(str(error)) from error
    if keys.is_rotating:
        raise CannotStart(
            "a rotation of the root key is under way, and a backup taken now would need both keys; finish it "
            "first with: veristream root-key rotate"
        )
    return keys.current


def verify(settings: Settings, path: Path, *, as_json: bool) -> bool:
    """Hold a backup against its digests and say what is wrong; returns whether nothing is.

    Raises:
        CannotStart: It has no manifest that holds.
    """
    there = settings.root_key is not None or (settings.data_dir / ROOT_KEY_FILE).exists()
    with _telling("verifying the backup") as tell:
        manifest, faults = verify_backup(path, key_for(settings) if there else None, tell)
    told: dict[str, Any] = _pairs(
        path, manifest.backup_id, str(manifest.taken_at), len(manifest.files), manifest.size
    )
    told |= {"root_key": "fits" if there else "not given: the signature was not checked", "ok": not faults}
    if as_json:
        say_json({**told, "root_key_checked": there, "faults": faults})
    else:
        say_pairs({**told, **{f"fault {n}": fault for n, fault in enumerate(faults, 1)}}, as_json=False)
    return not faults


def restore(settings: Settings, path: Path, *, activate: bool, as_json: bool) -> None:
    """Restore a backup and say what comes next.

    Raises:
        CannotStart: It cannot be restored.
    """
    _require_embedded(settings)
    with _telling("restoring the backup") as tell:
        made = restore_backup(settings, path, tell, activate=activate)
    if activate:
        say_warning(FORK_WARNING)
    told = _pairs(settings.data_dir, made.backup_id, str(made.taken_at), len(made.files), made.size)
    following = "veristream up" if activate else "veristream activate"
    told |= {"active": activate, "next": f"{following} --data-dir {settings.data_dir}"}
    say_pairs(told, as_json=as_json)


def activate(settings: Settings, *, as_json: bool) -> None:
    """Let a restored folder act, and warn of what that means.

    Raises:
        CannotStart: There is none.
    """
    mark = activate_restored(settings)
    say_warning(FORK_WARNING)
    told = {"backup_id": mark.backup_id, "taken_at": str(mark.taken_at), "active": True}
    say_pairs({**told, "next": f"veristream up --data-dir {settings.data_dir}"}, as_json=as_json)


def _require_embedded(settings: Settings) -> None:
    engines = {
        "Kafka": settings.kafka_bootstrap is not None,
        "Cassandra": bool(settings.cassandra_contact_points),
    }
    used = " and ".join(name for name, is_used in engines.items() if is_used)
    if used:
        raise CannotStart(
            f"the settings name a {used}, whose data this command does not see; 'Backups' in "
            "app/docs/operations.md says what to do with its own tools. For the embedded engines name "
            "their folder with --data-dir and unset those settings"
        )


def _pairs(place: Path, backup_id: str, taken_at: str, files: int, size: int) -> dict[str, Any]:
    return {
        "place": str(place),
        "backup_id": backup_id,
        "taken_at": taken_at,
        "files": files,
        "bytes": size,
    }


@contextmanager
def _telling(beginning: str) -> Iterator[Callable[[str], None]]:
    """Show how far the work is, on stderr of a terminal."""
    with err.status(beginning) as status:
        yield status.update
