"""Commands of backups: `backup`, `backup verify`, `restore` and `activate`."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup
from typing_extensions import override

from app.adapters.files.data_dir import ROOT_KEY_FILE
from app.cli.options import AsJson, DataDir, settings_of
from app.composition.existing_deployment import require_deployment
from app.process.output import err, say_json, say_pairs, say_warning
from app.process.startup import CannotStart
from app.settings import Settings
from schemas.base import rfc3339
from schemas.problems import VeristreamError

if TYPE_CHECKING:
    from app.adapters.security.crypto import RootKey


class _CreateUnlessNamed(TyperGroup):
    """Command group that takes `backup DIR` for `backup create DIR`."""

    @override
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] != "--help":
            args = ["create", *args]
        return super().parse_args(ctx, args)


backups = typer.Typer(
    cls=_CreateUnlessNamed,
    no_args_is_help=True,
    help="Backups of the data folder: [bold]veristream backup DIR[/] takes one while the service runs.",
)

Backup = Annotated[Path, typer.Argument(metavar="BACKUP", help="The folder or .tar file of a backup.")]


@backups.command("create")
def backup_create(
    destination: Annotated[
        Path, typer.Argument(metavar="DIR|FILE", help="A new folder, or a new file whose name ends in .tar.")
    ],
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Copy the whole deployment as it is at one moment, but for the root key; works while the service runs.

    Nothing is overwritten. A backup that is cut off leaves nothing that looks whole.

    Try:

      veristream backup create /var/backups/veristream-monday

      veristream backup /var/backups/veristream-monday.tar --data-dir /var/lib/veristream --json
    """
    take(settings_of(data_dir), destination, as_json=as_json)


@backups.command("verify")
def backup_verify(backup: Backup, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Hold every file of a backup against its digest, and name those that were altered.

    With the root key (of the data folder, or SERVICE_ROOT_KEY_FILE) the manifest's signature is checked as
    well. Exit status 1: something is wrong.

    Try:

      veristream backup verify /var/backups/veristream-monday

      veristream backup verify /var/backups/veristream-monday.tar --json
    """
    good = verify_files(settings_of(data_dir), backup, as_json=as_json)
    raise typer.Exit(0 if good else 1)


def restore(
    backup: Backup,
    activate: Annotated[
        bool, typer.Option("--activate", help="Let it take over at once; without it the copy only rests.")
    ] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Restore a backup into an empty folder; it sends and consumes nothing until it is activated.

    The root key is put in the folder first, or named with SERVICE_ROOT_KEY_FILE. A restore that was cut off
    goes on when it is run again.

    Try:

      veristream restore /var/backups/veristream-monday --data-dir /var/lib/veristream-rehearsal

      veristream restore /var/backups/veristream-monday.tar --data-dir /var/lib/veristream --activate
    """
    restore_into(settings_of(data_dir), backup, activate=activate, as_json=as_json)


def activate(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Let a restored folder take over: from now on its roles may start, consume and send.

    End the service that the backup was taken of first: two that are active fork the audit chain.

    Try:

      veristream activate --data-dir /var/lib/veristream
    """
    activate_folder(settings_of(data_dir), as_json=as_json)


def take(settings: Settings, destination: Path, *, as_json: bool) -> None:
    """Take a backup and print its manifest.

    Raises:
        CannotStart: It cannot be taken.
    """
    import resource

    from app.backup.taking import at_low_priority, take_backup

    _require_embedded(settings)
    require_deployment(settings)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # what was allowed before is often enough
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with _progress("taking the backup") as report, at_low_priority() as pinning:
        made = take_backup(settings, destination, asyncio.run(_current_key(settings)), report, pinning)
    if made.missing_evidence:
        say_warning(
            f"{len(made.missing_evidence)} pieces of evidence have no file in this deployment, so the backup "
            "has none either; see: veristream doctor --invariants"
        )
    shown = _pairs(destination, made.backup_id, rfc3339(made.taken_at), len(made.files), made.size)
    say_pairs({**shown, "missing_evidence": len(made.missing_evidence)}, as_json=as_json)


async def _current_key(settings: Settings) -> "RootKey":
    """Return the root key that the data is sealed under; no other may be needed to open the backup."""
    from app.backup.restoring import key_for
    from app.composition.stores import open_root_keys
    from app.root_keys.rotation import read_root_keys

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


def verify_files(settings: Settings, path: Path, *, as_json: bool) -> bool:
    """Verify a backup against its digests and print the faults; return whether there are none.

    Raises:
        CannotStart: It has no manifest that holds.
    """
    from app.backup.restoring import OTHER_KEY, key_for, verify_backup

    there = settings.root_key is not None or (settings.data_dir / ROOT_KEY_FILE).exists()
    with _progress("verifying the backup") as report:
        manifest, faults = verify_backup(path, key_for(settings) if there else None, report)
    shown: dict[str, Any] = _pairs(
        path, manifest.backup_id, rfc3339(manifest.taken_at), len(manifest.files), manifest.size
    )
    key = "is another one" if OTHER_KEY in faults else "fits"
    shown |= {"root_key": key if there else "not given: the signature was not checked", "ok": not faults}
    if as_json:
        say_json({**shown, "root_key_checked": there, "faults": faults})
    else:
        say_pairs({**shown, **{f"fault {n}": fault for n, fault in enumerate(faults, 1)}}, as_json=False)
    return not faults


def restore_into(settings: Settings, path: Path, *, activate: bool, as_json: bool) -> None:
    """Restore a backup and print the next step.

    Raises:
        CannotStart: It cannot be restored.
    """
    from app.backup.restoring import restore_backup
    from app.composition.restore_marker import FORK_WARNING

    _require_embedded(settings)
    with _progress("restoring the backup") as report:
        made = restore_backup(settings, path, report, activate=activate)
    if activate:
        say_warning(FORK_WARNING)
    shown = _pairs(settings.data_dir, made.backup_id, rfc3339(made.taken_at), len(made.files), made.size)
    following = "veristream up" if activate else "veristream activate"
    shown |= {"active": activate, "next": f"{following} --data-dir {settings.data_dir}"}
    say_pairs(shown, as_json=as_json)


def activate_folder(settings: Settings, *, as_json: bool) -> None:
    """Activate a restored folder, and warn of the consequences.

    Raises:
        CannotStart: There is none.
    """
    from app.backup.restoring import activate_restored
    from app.composition.restore_marker import FORK_WARNING

    mark = activate_restored(settings)
    say_warning(FORK_WARNING)
    shown = {"backup_id": mark.backup_id, "taken_at": rfc3339(mark.taken_at), "active": True}
    say_pairs({**shown, "next": f"veristream up --data-dir {settings.data_dir}"}, as_json=as_json)


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
def _progress(beginning: str) -> Iterator[Callable[[str], None]]:
    """Show how far the work is, on stderr of a terminal."""
    with err.status(beginning) as status:
        yield status.update
