"""Run the checks of `veristream doctor`; each finding says how to fix it."""

import asyncio
import platform
import resource
import shutil
import ssl
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from app.adapters.cassandra.diagnostics import SAFE_COPIES, Seen, look_at
from app.adapters.cassandra.schema import NEWEST
from app.adapters.files.data_dir import open_to_others
from app.composition.cassandra import address_of
from app.composition.stores import Deployment, open_existing, record_keys_of
from app.doctor.audit_chains import walk_chains
from app.doctor.running_service import Finding, ServiceCheck
from app.doctor.screening import check_screening
from app.kafka.cluster import TABLES, access_of
from app.kafka.diagnostics import reach
from app.observability.disk_space import nearest_existing
from app.process.output import out, table
from app.process.startup import CannotStart
from app.settings import Settings, SettingsRefused
from app.vision.faces.dlib_engine import load_core
from app.vision.ocr import RapidTextReader
from schemas.problems import StoreUnavailable, VeristreamError
from streams.runtime.app import GROUP
from streams.runtime.dead_letters import list_dead_letters
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.topics import TopicUnfit, open_admin, refuse_unfit, topics_wanted

FREE_BYTES_MIN: Final = 1 << 30
"""Below it evidence and logs soon have no room."""

OPEN_FILES_MIN: Final = 1024
"""The embedded broker keeps a file open per log segment."""

DEAD_LETTERS_SHOWN: Final = 1_000


async def run_checks(settings: Settings, url: str | None = None) -> list[Finding]:
    """Run all checks; a check that fails to run is a finding as well.

    The service is asked at `url`, or else where it began to serve and where these settings say.
    """
    findings = [_python(), _open_files(), _disk(settings.data_dir), _private(settings.data_dir)]
    findings += [await asyncio.to_thread(_models), _face_band(settings)]
    findings += await check_cassandra(settings)
    try:
        async with open_existing(settings) as deployment:
            look = await ServiceCheck(settings, url, deployment)()
            findings.append(Finding(looked_at="store and root key", ok=True, found="open"))
            findings += await _chains(settings, deployment)
            findings.append(await _outbox(deployment))
            findings += await check_screening(deployment.stores)
    except CannotStart as error:
        look = await ServiceCheck(settings, url)()
        findings.append(
            Finding(
                looked_at="store and root key",
                ok=False,
                found=str(error),
                fix="do what the message says; a lost root key cannot be replaced",
            )
        )
    if look.insecure_receivers is not None:  # what counts is how the service runs
        settings = settings.model_copy(update={"webhooks_allow_insecure": look.insecure_receivers})
    return [*look.findings, *findings, _receivers(settings), *await _broker(settings)]


def print_findings(findings: Sequence[Finding]) -> None:
    """Print the findings for a person."""
    rows = [
        ("[green]ok[/]" if f.ok else "[bold red]not ok[/]", f.looked_at, f.found, f.fix) for f in findings
    ]
    out.print(table("Veristream", ("", "looked at", "found", "fix"), rows))


def _python() -> Finding:
    good = sys.version_info >= (3, 11)
    fix = None if good else "install Python 3.11 or newer"
    return Finding(looked_at="Python", ok=good, found=platform.python_version(), fix=fix)


def _open_files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    good = hard >= OPEN_FILES_MIN or hard == resource.RLIM_INFINITY
    fix = None if good else f"raise the limit of open files to {OPEN_FILES_MIN} or more (ulimit -Hn)"
    return Finding(looked_at="open files", ok=good, found=f"{soft} now, {hard} at most", fix=fix)


def _disk(data_dir: Path) -> Finding:
    existing = nearest_existing(data_dir)
    free = shutil.disk_usage(existing).free
    good = free >= FREE_BYTES_MIN
    fix = None if good else f"make room on the disk of {existing}, or choose another --data-dir"
    return Finding(looked_at="disk", ok=good, found=f"{free / 2**30:.1f} GiB free at {existing}", fix=fix)


def _private(data_dir: Path) -> Finding:
    found = [str(path) for path in open_to_others(data_dir)]
    remedy = f"run: chmod -R go-rwx {data_dir}" if found else None
    words = f"open to others: {', '.join(found[:5])}" if found else "for its owner alone"
    return Finding(looked_at="data folder", ok=not found, found=words, fix=remedy)


def _receivers(settings: Settings) -> Finding:
    roots = ssl.get_default_verify_paths()
    if not any((roots.cafile, roots.capath)):
        fix = "install the package of certificate authorities, often named ca-certificates"
        return Finding(looked_at="webhooks", ok=False, found="no authority to trust", fix=fix)
    if not settings.webhooks_allow_insecure:
        ports = ", ".join(map(str, sorted(settings.webhooks_ports)))
        found = f"to https and public addresses only, ports {ports}"
        return Finding(looked_at="webhooks", ok=True, found=found)
    fix = "unset SERVICE_WEBHOOKS_ALLOW_INSECURE, which is for development alone"
    return Finding(looked_at="webhooks", ok=False, found="http and loopback are allowed", fix=fix)


def _models() -> Finding:
    try:
        version = RapidTextReader().model_version
        load_core()
    except VeristreamError as error:
        fix = "install the pinned packages again: pip install --require-hashes -r requirements.lock"
        return Finding(looked_at="models", ok=False, found=str(error), fix=fix)
    return Finding(looked_at="models", ok=True, found=f"all hashes hold ({version}, dlib)")


def _face_band(settings: Settings) -> Finding:
    if settings.faces is not None:
        return Finding(looked_at="faces", ok=True, found="models and thresholds of SERVICE_FACES")
    found = f"accepted up to {settings.face_accept_at:g}, rejected above {settings.face_reject_above:g}"
    return Finding(looked_at="faces", ok=True, found=found)


async def _chains(settings: Settings, deployment: Deployment) -> list[Finding]:
    report = await walk_chains(settings, deployment)
    bad = [chain.tenant_id for chain in report.chains if not chain.ok]
    rows = sum(chain.rows for chain in report.chains)
    faults = report.checkpoints.faults
    found = f"{len(report.chains)} chains, {rows} rows" + (f", broken: {', '.join(bad)}" if bad else "")
    remedy = "run: veristream audit verify; then compare with a backup"
    newest = f"newest: {report.checkpoints.newest}" + (f"; {'; '.join(faults)}" if faults else "")
    return [
        Finding(looked_at="audit log", ok=not bad, found=found, fix=remedy if bad else None),
        Finding(looked_at="audit checkpoints", ok=not faults, found=newest, fix=remedy if faults else None),
    ]


async def _outbox(deployment: Deployment) -> Finding:
    waiting = await deployment.stores.journal.pending_events(DEAD_LETTERS_SHOWN)
    return Finding(looked_at="outbox", ok=True, found=f"{len(waiting)} events wait to leave")


async def _broker(settings: Settings) -> Iterable[Finding]:
    try:
        access = access_of(settings)
        alive = await reach(access)
        async with open_admin(access) as admin:
            there = {topic["topic"]: topic["partitions"] for topic in await admin.describe_topics()}
        letters = await list_dead_letters(access, await record_keys_of(settings), DEAD_LETTERS_SHOWN)
    except (CannotStart, SettingsRefused, StoreUnavailable) as error:
        fix = "do what the message says" if settings.kafka_bootstrap else "start the service: veristream up"
        return [Finding(looked_at="broker", ok=False, found=str(error), fix=fix)]
    waiting = sum(not letter.redriven for letter in letters)
    return [
        Finding(looked_at="broker", ok=True, found=f"{access.protocol} at {access.bootstrap}, {alive} alive"),
        _topics(access, there),
        Finding(
            looked_at="dead letters",
            ok=not waiting,
            found=f"{waiting} wait",
            fix="look at them: veristream dlq list; then: veristream dlq redrive" if waiting else None,
        ),
    ]


def _topics(access: LogAccess, there: Mapping[str, Sequence[Mapping[str, Any]]]) -> Finding:
    wanted = topics_wanted(access, GROUP, TABLES)
    missing = sorted(topic.name for topic in wanted if topic.name not in there)
    if missing:
        fix = "start the service once, it creates its topics: veristream up"
        return Finding(looked_at="topics", ok=False, found=f"missing: {', '.join(missing)}", fix=fix)
    try:
        for topic in wanted:
            refuse_unfit(topic, there[topic.name])
    except TopicUnfit as error:
        return Finding(looked_at="topics", ok=False, found=str(error), fix="do what the message says")
    found = f"{len(wanted)}, stored {access.replication_factor} times"
    return Finding(looked_at="topics", ok=True, found=found)


CLOCK_S: Final = 5.0
"""Seconds that clocks may be apart; what is deleted and written anew is put in order by them."""


async def check_cassandra(settings: Settings) -> list[Finding]:
    """Return the findings about Cassandra; none when it is not configured."""
    try:
        address = await asyncio.to_thread(address_of, settings)
        if address is None:
            return []
        seen = await look_at(address, settings.cassandra_keyspace)
    except (VeristreamError, SettingsRefused) as error:
        fix = "do what the message says"
        return [Finding(looked_at="Cassandra", ok=False, found=str(error), fix=fix)]
    fixes = list(_fixes(seen, settings.cassandra_keyspace))
    found = (
        f"{seen.release} at {address}, {seen.nodes_up} of {seen.nodes} nodes up, schema {seen.schema}, "
        f"copies: {seen.copies}, clock {seen.clock_ahead_s:+.1f} s"
    )
    return [Finding(looked_at="Cassandra", ok=not fixes, found=found, fix="; ".join(fixes) or None)]


def _fixes(seen: Seen, keyspace: str) -> Iterator[str]:
    if seen.nodes_up < seen.nodes:
        yield "bring the nodes up that are down"
    if seen.schema < NEWEST:
        yield "run: veristream migrate"
    if seen.copies < min(seen.nodes, SAFE_COPIES):
        yield f"keep {min(seen.nodes, SAFE_COPIES)} copies: ALTER KEYSPACE {keyspace}, then nodetool repair"
    if abs(seen.clock_ahead_s) > CLOCK_S:
        yield "set the clocks of all machines by NTP"
