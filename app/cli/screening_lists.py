"""Commands of the deployment's lists of names: `lists load`, `lists status` and `lists test`."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.options import AsJson, DataDir, settings_of
from app.process.output import say_json, say_pairs, say_rows
from app.process.startup import CannotStart
from schemas.lists import LIST_NAME_PATTERN, SANDBOX, EntityKind

if TYPE_CHECKING:
    from app.adapters.files.list_snapshots import Snapshot

screening_lists = typer.Typer(
    no_args_is_help=True, help="Sanctions and other lists that names are screened against."
)


@screening_lists.command("load")
def load(
    name: Annotated[
        str, typer.Argument(help="Such as us_ofac_sdn, un_sc_sanctions, eu_fsf, gb_fcdo_sanctions, peps.")
    ],
    files: Annotated[
        list[Path],
        typer.Argument(help="The published file; of OFAC's CSV sdn.csv, alt.csv and add.csv.", exists=True),
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Take it although it differs much from the last one.")
    ] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Load a published list; running processes serve it within seconds.

    The last version stays when the file cannot be read, has a fifth more or fewer entries, is older, or
    lacks fields it had before.

    Try:

      veristream lists load un_sc_sanctions consolidated.xml

      veristream lists load us_ofac_sdn sdn.csv alt.csv add.csv --json
    """
    from app.adapters.files.list_snapshots import ListSnapshots
    from app.lists.loading import LoadRefused, load_list

    if not re.match(LIST_NAME_PATTERN, name) or name == SANDBOX:
        raise CannotStart(
            f"{name!r} cannot name a list: 2 to 48 of a-z, 0-9 and _, a letter first, and not {SANDBOX}"
        )
    try:
        snapshot = load_list(
            ListSnapshots(settings_of(data_dir).data_dir), name, files, datetime.now(UTC), force=force
        )
    except LoadRefused as error:
        raise CannotStart(f"{name} was not replaced: {error}") from error
    say_pairs(_shown(snapshot), as_json=as_json)


@screening_lists.command("status")
def status(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Show the loaded lists, how old they are, and why one could not be replaced.

    Try:

      veristream lists status --json
    """
    from app.adapters.files.list_snapshots import ListSnapshots

    shown = [_shown(one) for one in ListSnapshots(settings_of(data_dir).data_dir).current().values()]
    if as_json:
        say_json(shown)
        return
    columns = ("name", "check", "version", "entries", "loaded_at", "problem")
    say_rows(columns, [[one[column] for column in columns] for one in shown])


@screening_lists.command("test")
def look_up_name(
    name: Annotated[str, typer.Argument(help="The name to look for.")],
    kind: Annotated[EntityKind, typer.Option("--kind")] = EntityKind.PERSON,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Look a name up in every loaded list, and say which words matched.

    Try:

      veristream lists test "Zoltan Qaraveli"
    """
    from app.adapters.files.list_snapshots import ListSnapshots
    from app.lists.looking_up import look_up

    found = look_up(ListSnapshots(settings_of(data_dir).data_dir), name, kind)
    if as_json:
        say_json([one.model_dump(mode="json", exclude_none=True) for one in found])
        return
    rows = [
        (
            f"{one.score:.2f}",
            one.list,
            one.entity_id,
            one.name,
            " ".join(f"{part.query or '-'}={part.listed or '-'}" for part in one.parts),
        )
        for one in found
    ]
    say_rows(("score", "list", "entity", "listed name", "words"), rows)


def _shown(snapshot: "Snapshot") -> dict[str, object]:
    return {
        "name": snapshot.name,
        "check": snapshot.check.value,
        "version": snapshot.version,
        "entries": snapshot.entries,
        "rows_unreadable": snapshot.failed,
        "loaded_at": snapshot.loaded_at.isoformat(timespec="seconds"),
        "problem": snapshot.problem,
    }
