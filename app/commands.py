"""What each command does, between the command line and the composition root."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Final, TypeVar

import structlog

from app.adapters.crypto import Purpose
from app.console import err, out, say_json, table
from app.kafka_log import access_of, open_broker, prepare_topics
from app.kafka_reach import reach
from app.listening import listen
from app.settings import Settings
from app.startup import CannotStart, settle_memory, until_told_to_stop
from app.telemetry import configure_logging
from app.wiring import (
    STREAMS,
    House,
    Running,
    new_id,
    now,
    open_front,
    open_health,
    open_house,
    open_worker,
    running_all,
)
from schemas.enums import Scope
from schemas.ids import PLATFORM, KeyId, TenantId, derive_id
from schemas.problems import NotFound, StoreUnavailable
from streams.access.handler import TENANTS_INDEX, CreateKey, CreateTenant, RevokeKey
from streams.audit.handler import ChainReport, verify_chain
from streams.catalog.handler import Catalogue
from streams.ports import Position, RecordKind
from streams.runtime.access import LogAccess
from streams.runtime.dead_letters import DeadLetter, list_dead_letters
from streams.runtime.dead_letters import redrive as redrive_letters
from streams.runtime.writer import LogWriter

log = structlog.get_logger("veristream")

T = TypeVar("T")

DEMO_TENANT: Final = TenantId(derive_id("ten", "demo"))
"""The demonstration's tenant, the same at every run."""


async def up(settings: Settings) -> None:
    """Run everything until told to stop; the first line on stdout is the address, once ready."""
    _begin(settings)
    with err.status("starting broker, models and agents") as status:
        async with running_all(settings, tell=status.update) as running:
            status.stop()
            _say_ready("veristream", f"{running.url}  (kafka {running.access.bootstrap})")
            await until_told_to_stop()
            err.print("stopping")


async def broker(settings: Settings) -> None:
    """Run the embedded broker until told to stop.

    Raises:
        CannotStart: The deployment has a Kafka, or the broker cannot start.
    """
    if settings.kafka_bootstrap is not None:
        raise CannotStart("SERVICE_KAFKA_BOOTSTRAP names a Kafka; unset it to run the embedded one")
    configure_logging(settings.log_format, settings.log_level)
    async with open_broker(settings) as access:
        await prepare_topics(access)  # on an emptied folder too, while fronts and workers still live
        _say_ready("broker", access.bootstrap)
        await until_told_to_stop()


async def front(settings: Settings) -> None:
    """Run the HTTP front until told to stop."""
    _begin(settings)
    access = access_of(settings)
    with listen(settings) as listening:
        async with open_house(settings) as house:
            await prepare_topics(access)
            async with (
                LogWriter(access) as writer,
                open_front(settings, house, writer, access, listening, drain_s=settings.front_drain_s) as url,
            ):
                _say_ready("front", url)
                await until_told_to_stop()


async def worker(settings: Settings, streams: Sequence[str]) -> None:
    """Run agents until told to stop."""
    _begin(settings)
    access = access_of(settings)
    async with open_house(settings) as house:
        await prepare_topics(access)
        async with (
            LogWriter(access) as writer,
            open_worker(settings, house, writer, access, streams) as agents,
            open_health(settings, house, access, agents) as health,
        ):
            _say_ready("worker", ",".join(streams) + (f"  ({health})" if health else ""))
            await until_told_to_stop()


def _begin(settings: Settings) -> None:
    configure_logging(settings.log_format, settings.log_level)
    if settings.webhooks_allow_insecure:
        log.warning("webhooks.insecure_receivers_allowed", mend="unset SERVICE_WEBHOOKS_ALLOW_INSECURE")


def _say_ready(role: str, where: str) -> None:
    settle_memory()
    out.print(f"{role} is ready: {where}", soft_wrap=True, highlight=False)


def chosen_streams(text: str) -> tuple[str, ...]:
    """Return the agents named, or all of them.

    Raises:
        CannotStart: One is unknown.
    """
    named = STREAMS if text == "all" else tuple(part.strip() for part in text.split(","))
    unknown = sorted(set(named) - set(STREAMS))
    if unknown:
        raise CannotStart(f"no such stream: {', '.join(unknown)}; there are: {', '.join(STREAMS)}")
    return named


def chosen_scopes(text: str) -> tuple[Scope, ...]:
    """Return the scopes named.

    Raises:
        CannotStart: One is unknown.
    """
    named = [part.strip() for part in text.split(",")]
    unknown = sorted(set(named) - set(Scope))
    if unknown:
        raise CannotStart(f"no such scope: {', '.join(unknown)}; there are: {', '.join(Scope)}")
    return tuple(map(Scope, named))


async def create_tenant(settings: Settings, name: str) -> dict[str, str]:
    """Create a tenant and return its id."""
    async with open_house(settings) as house:
        tenant = await CreateTenant(house.stores.journal.commit, now, new_id)(name)
        return {"tenant_id": tenant.tenant_id}


async def create_key(
    settings: Settings,
    tenant: str,
    *,
    name: str,
    livemode: bool,
    scopes: Sequence[Scope],
    expires_days: int | None,
) -> dict[str, str]:
    """Create a key of a tenant; the key itself is shown this once.

    Raises:
        CannotStart: No such tenant.
    """
    async with open_house(settings) as house:
        expires_at = None if expires_days is None else now() + timedelta(days=expires_days)
        made, shown = await _create_key(house)(
            await known_tenant(house, tenant),
            name=name,
            livemode=livemode,
            scopes=tuple(scopes),
            expires_at=expires_at,
        )
        return {"key_id": made.key_id, "api_key": shown}


async def revoke_key(settings: Settings, tenant: str, key_id: str) -> dict[str, str]:
    """Revoke a key; revoking it again changes nothing.

    Raises:
        CannotStart: The tenant has no such key.
    """
    async with open_house(settings) as house:
        try:
            await RevokeKey(house.stores.records, house.stores.journal.commit, now)(
                TenantId(tenant), KeyId(key_id)
            )
        except NotFound as error:
            raise CannotStart(f"tenant {tenant} has no key {key_id}") from error
        return {"key_id": key_id, "revoked": "true"}


def _create_key(house: House) -> CreateKey:
    pepper = house.root_key.derive(Purpose.API_KEY_PEPPER)
    return CreateKey(house.stores.journal.commit, pepper, now, new_id)


async def known_tenant(house: House, tenant: str) -> TenantId:
    """Return the tenant's id.

    Raises:
        CannotStart: No such tenant.
    """
    try:
        await house.stores.records.get(PLATFORM, RecordKind.TENANT, tenant)
    except NotFound as error:
        raise CannotStart(
            f"no such tenant: {tenant}; make one with: veristream tenant create NAME"
        ) from error
    return TenantId(tenant)


async def load_catalogue(settings: Settings) -> int:
    """Install the first catalogue; returns how many entries, 0 when it was installed before."""
    async with open_house(settings) as house:
        return await Catalogue(house.stores.records, house.stores.journal.commit, now).install_first()


async def demo_credentials(running: Running) -> tuple[str, str]:
    """Return a live and a test key of the demonstration's tenant, made on first use.

    Keys are shown once, so every demonstration makes its own; they end after a week.
    """
    house = running.house
    try:
        await known_tenant(house, DEMO_TENANT)
    except CannotStart:
        await CreateTenant(house.stores.journal.commit, now, lambda _: DEMO_TENANT)("Demonstration")
    make, until = _create_key(house), now() + timedelta(days=7)
    shown = [
        (await make(DEMO_TENANT, name="demo", livemode=live, scopes=tuple(Scope), expires_at=until))[1]
        for live in (True, False)
    ]
    return shown[0], shown[1]


async def verify_audit(settings: Settings, tenant: str | None) -> list[ChainReport]:
    """Walk the chain of one tenant or of all, the platform's own among them."""
    async with open_house(settings) as house:
        key = house.root_key.derive(Purpose.AUDIT_CHAIN)
        named = [TenantId(tenant)] if tenant else [PLATFORM, *await every_tenant(house)]
        return [await verify_chain(house.stores.audit_log, one, key) for one in named]


async def every_tenant(house: House) -> list[TenantId]:
    """Return the ids of all tenants, newest first."""
    found: list[TenantId] = []
    before: Position | None = None
    while page := await house.stores.records.page(
        PLATFORM, RecordKind.TENANT, TENANTS_INDEX, limit=100, before=before
    ):
        found += [TenantId(record.id) for record in page]
        before = Position(page[-1].created_at, page[-1].id)
    return found


def say_audit_reports(reports: Sequence[ChainReport], *, as_json: bool) -> None:
    """Print what the walks found."""
    if as_json:
        say_json([{**report.model_dump(mode="json"), "ok": report.ok} for report in reports])
        return
    columns = ("tenant", "rows", "not yet sealed", "verdict")
    out.print(table("Audit chains", columns, [_report_row(report) for report in reports]))


def _report_row(report: ChainReport) -> tuple[object, ...]:
    place = "" if report.position is None else f" at position {report.position}"
    row = "" if report.event_id is None else f": {report.event_id}"
    verdict = "[green]holds[/]" if report.ok else f"[bold red]{report.fault}[/]{place}{row}"
    return report.tenant_id, report.rows, report.waiting, verdict


async def dead_letters(settings: Settings, limit: int) -> list[DeadLetter]:
    """Return the buried messages, oldest first."""
    access = access_of(settings)
    return await _with_broker(settings, access, lambda: list_dead_letters(access, limit))


async def redrive(settings: Settings, limit: int) -> int:
    """Send buried messages back once; return how many."""
    access = access_of(settings)

    async def sent() -> int:
        async with LogWriter(access) as writer:
            return await redrive_letters(access, writer, limit)

    return await _with_broker(settings, access, sent)


async def _with_broker(settings: Settings, access: LogAccess, asked: Callable[[], Awaitable[T]]) -> T:
    try:
        await reach(access)
        return await asked()
    except StoreUnavailable as error:
        mend = "; see: veristream doctor" if settings.kafka_bootstrap else "; start one with: veristream up"
        raise CannotStart(f"no broker answers: {error}{mend}") from error


def say_dead_letters(letters: Sequence[DeadLetter], *, as_json: bool) -> None:
    """Print buried messages, without what they carry."""
    rows = [
        {
            "offset": letter.offset,
            "source": f"{letter.delivery.topic}/{letter.delivery.partition}@{letter.delivery.offset}",
            "buried_at": letter.buried_at,
            "reason": letter.reason,
            "redriven": letter.redriven,
        }
        for letter in letters
    ]
    if as_json:
        say_json(rows)
    elif not rows:
        out.print("No dead letters.")
    else:
        out.print(table("Dead letters", tuple(rows[0]), [tuple(row.values()) for row in rows]))
