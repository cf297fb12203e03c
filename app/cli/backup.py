"""The commands about backups: `veristream backup`, `backup verify`, `restore` and `activate`."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typing_extensions import override

from app.cli.options import AsJson, DataDir, settings_of


class _CreateUnlessNamed(TyperGroup):
    """Takes `backup DIR` for `backup create DIR`."""

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
    as_json: AsJson = False,  # noqa: FBT002 - an option of a command
) -> None:
    """Copy the whole deployment as it is at one moment, but for the root key; works while the service runs.

    Nothing is overwritten. A backup that is cut off leaves nothing that looks whole.

    Try:

      veristream backup create /var/backups/veristream-monday

      veristream backup /var/backups/veristream-monday.tar --data-dir /var/lib/veristream --json
    """
    from app.cli.actions import backup as actions_backup  # noqa: PLC0415 - a command imports what it needs alone

    actions_backup.backup(settings_of(data_dir), destination, as_json=as_json)


@backups.command("verify")
def backup_verify(backup: Backup, data_dir: DataDir = None, as_json: AsJson = False) -> None:  # noqa: FBT002 - as above
    """Hold every file of a backup against its digest, and name those that were altered.

    With the root key (of the data folder, or SERVICE_ROOT_KEY_FILE) the manifest's signature is checked as
    well. Exit status 1: something is wrong.

    Try:

      veristream backup verify /var/backups/veristream-monday

      veristream backup verify /var/backups/veristream-monday.tar --json
    """
    from app.cli.actions import backup as actions_backup  # noqa: PLC0415 - as above

    good = actions_backup.verify(settings_of(data_dir), backup, as_json=as_json)
    raise typer.Exit(0 if good else 1)


def restore(
    backup: Backup,
    activate: Annotated[  # noqa: FBT002 - an option of a command
        bool, typer.Option("--activate", help="Let it take over at once; without it the copy only rests.")
    ] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,  # noqa: FBT002 - as above
) -> None:
    """Restore a backup into an empty folder; it sends and consumes nothing until it is activated.

    The root key is put in the folder first, or named with SERVICE_ROOT_KEY_FILE. A restore that was cut off
    goes on when it is run again.

    Try:

      veristream restore /var/backups/veristream-monday --data-dir /var/lib/veristream-rehearsal

      veristream restore /var/backups/veristream-monday.tar --data-dir /var/lib/veristream --activate
    """
    from app.cli.actions import backup as actions_backup  # noqa: PLC0415 - as above

    actions_backup.restore(settings_of(data_dir), backup, activate=activate, as_json=as_json)


def activate(data_dir: DataDir = None, as_json: AsJson = False) -> None:  # noqa: FBT002 - as above
    """Let a restored folder take over: from now on its roles may start, consume and send.

    End the service that the backup was taken of first: two that are active fork the audit chain.

    Try:

      veristream activate --data-dir /var/lib/veristream
    """
    from app.cli.actions import backup as actions_backup  # noqa: PLC0415 - as above

    actions_backup.activate(settings_of(data_dir), as_json=as_json)
