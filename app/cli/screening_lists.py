"""Commands of the deployment's lists of names: `lists update`, `load`, `status` and `test`."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.options import AsJson, DataDir, settings_of
from app.composition.existing_deployment import require_store
from app.process.output import say_json, say_pairs, say_rows
from app.process.startup import CannotStart
from app.settings import Settings, SettingsRefused
from schemas.lists import LIST_NAME_PATTERN, SANDBOX, EntityKind

if TYPE_CHECKING:
    from app.adapters.files.list_snapshots import ListSnapshots, Snapshot
    from app.composition.stores import Deployment
    from app.lists.publishing import PublishList
    from schemas.tenant_lists import ListChanged

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
    from app.lists.publishing import LoadRefused

    require_list_name(name)
    try:
        asyncio.run(_load(settings_of(data_dir), name, files, force=force))
    except LoadRefused as error:
        raise CannotStart(f"{name} was not replaced: {error}") from error
    say_pairs(_shown(_snapshots(data_dir).current()[name]), as_json=as_json)


@screening_lists.command("update")
def update(
    names: Annotated[
        list[str] | None, typer.Argument(help="Lists \\[default: those of OFAC, the UN, the EU and the UK].")
    ] = None,
    address: Annotated[
        str | None,
        typer.Option("--from", help="Where to fetch the one list from, if not from its publisher."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Take them although they differ much from the last ones.")
    ] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Download lists from their publishers and load them; the last version stays where that fails.

    A name that is no list of ours is a data set of OpenSanctions, whose data is free for non-commercial use.

    Try:

      veristream lists update

      veristream lists update un_sc_sanctions --json
    """
    from app.lists.downloading import ADDRESSES

    chosen = names or list(ADDRESSES)
    for name in chosen:
        require_list_name(name)
    if address and len(chosen) != 1:
        raise CannotStart("--from is for one list; name it")
    settings = settings_of(data_dir)
    snapshots = _snapshots(data_dir)
    loaded, failed = asyncio.run(_fetch_all(settings, chosen, address, force=force))
    current = snapshots.current()
    _say_all([current[name] for name in loaded], as_json=as_json)
    if failed:
        raise CannotStart("; ".join(failed))


@screening_lists.command("status")
def status(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Show the loaded lists, how old they are, and why one could not be replaced.

    Try:

      veristream lists status --json
    """
    _say_all(_snapshots(data_dir).current().values(), as_json=as_json)


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
    from app.lists.serving import look_up

    found = look_up(_snapshots(data_dir), name, kind)
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


def require_list_name(name: str) -> None:
    """Raise `CannotStart` for what cannot name a list of the deployment."""
    if not re.match(LIST_NAME_PATTERN, name) or name == SANDBOX:
        said = f"{name!r} cannot name a list: 2 to 48 of a-z, 0-9 and _, a letter first, and not {SANDBOX}"
        raise CannotStart(said)


def _snapshots(data_dir: Path | None) -> "ListSnapshots":
    """Return the lists of a deployment.

    Raises:
        CannotStart: The folder holds none.
    """
    from app.adapters.files.list_snapshots import ListSnapshots

    settings = settings_of(data_dir)
    require_store(settings)
    return ListSnapshots(settings.data_dir)


async def _load(settings: Settings, name: str, files: Sequence[Path], *, force: bool) -> None:
    """Load one list for the whole deployment."""
    from streams.tenants.handler import OPERATOR

    async with _publishing(settings) as publish:
        await publish(name, files, OPERATOR, force=force)


async def _fetch_all(
    settings: Settings, names: Sequence[str], address: str | None, *, force: bool
) -> tuple[list[str], list[str]]:
    """Fetch and load each list; one that fails does not keep the others from being loaded."""
    from app.lists.downloading import address_of, download
    from app.lists.publishing import LoadRefused
    from streams.tenants.handler import OPERATOR

    loaded, failed = [], []
    async with _publishing(settings) as publish:
        for name in names:
            with publish.folder() as folder:
                path = Path(folder) / name
                try:
                    await download(address or address_of(name), path)
                    await publish(name, [path], OPERATOR, force=force)
                    loaded.append(name)
                except LoadRefused as error:
                    failed.append(f"{name} was not replaced: {error}")
    return loaded, failed


@asynccontextmanager
async def _publishing(settings: Settings) -> "AsyncIterator[PublishList]":
    """Open what loads lists; processes that run are notified, or find it within half a minute."""
    from app.adapters.files.list_snapshots import ListSnapshots
    from app.composition.stores import new_id, now, open_existing
    from app.lists.publishing import PublishList
    from streams.lists.storage import ListStorage

    async def serve() -> None:
        """Serve nothing: this process ends."""

    require_store(settings)
    async with open_existing(settings) as deployment:

        async def announce(changed: "ListChanged") -> None:
            await _tell(settings, deployment, changed)

        stores = deployment.stores
        storage = ListStorage(stores.records, stores.journal, stores.vault)
        snapshots = ListSnapshots(settings.data_dir)
        yield PublishList(snapshots, storage, stores.journal.commit, now, new_id, announce, serve)


async def _tell(settings: Settings, deployment: "Deployment", changed: "ListChanged") -> None:
    """Tell the processes that run; no broker need run for the command."""
    from app.kafka.cluster import access_of
    from app.kafka.diagnostics import reach
    from app.kafka.list_changes import announcing
    from schemas.problems import StoreUnavailable
    from streams.runtime.producer import LogWriter

    try:
        access = access_of(settings)
        await reach(access)
        async with LogWriter(access, deployment.record_keys) as writer:
            await announcing(writer, lambda _: None)(changed)
    except (CannotStart, SettingsRefused, StoreUnavailable):
        return


def _say_all(snapshots: Iterable["Snapshot"], *, as_json: bool) -> None:
    shown = [_shown(one) for one in snapshots]
    if as_json:
        say_json(shown)
        return
    columns = ("name", "check", "version", "entries", "loaded_at", "problem")
    say_rows(columns, [[one[column] for column in columns] for one in shown])


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
