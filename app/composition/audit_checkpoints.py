"""Build what a process that seals audit rows runs beside its agents."""

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

from app.adapters.files.checkpoint_files import CheckpointFiles
from app.adapters.security.message_authentication import checkpoint_key
from app.composition.stores import Deployment, now
from app.observability.backlog import Backlog, measuring
from app.settings import Settings, checkpoints_dir_of
from schemas.topics import Topic
from streams.audit.checkpoint_topic import CheckpointTopic
from streams.audit.checkpointing import EVERY_S, CheckpointWriter
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.lag import LagMeter
from streams.runtime.outbox_relay import OutboxRelay, beside, relaying_outbox, sweeping
from streams.runtime.producer import LogWriter
from streams.runtime.supervisor import Figure, Worker


def open_checkpoint_writer(
    settings: Settings, deployment: Deployment, access: LogAccess, writer: LogWriter
) -> CheckpointWriter:
    """Return what writes checkpoints to the files and to the topic.

    Raises:
        CannotStart: The process has the sender's key alone.
    """
    copies = {"file": CheckpointFiles(checkpoints_dir_of(settings)), "topic": CheckpointTopic(access, writer)}
    return CheckpointWriter(deployment.stores.audit_log, copies, checkpoint_key(deployment.root_key), now)


@asynccontextmanager
async def upkeep(
    deployment: Deployment,
    access: LogAccess,
    writer: LogWriter,
    worker: Worker,
    checkpoints: CheckpointWriter,
) -> AsyncIterator[None]:
    """Reconcile store and log, and sweep orphans; in one process write checkpoints and count the backlog.

    That process is the one that has the first partition of the audit topic.
    """

    def is_responsible() -> bool:
        return worker.is_assigned(Topic.AUDIT, 0)

    lag = LagMeter(access)
    backlog = Backlog(deployment.stores, lag.measure, is_responsible, now)
    worker.figures += backlog.figures
    worker.figures.append(
        Figure(
            "veristream_audit_checkpoint_problems_total",
            "Times a copy of the audit checkpoints was away, and chains found set back.",
            "problem",
            lambda: dict(checkpoints.problems),
        )
    )

    async def write() -> None:
        await checkpoints.run(is_responsible)

    relay = OutboxRelay(deployment.stores.journal, deployment.stores.audit_log, writer, now)
    async with (
        relaying_outbox(relay),
        sweeping(deployment.stores.evidence, now),
        beside(write, "checkpoints", EVERY_S),
        aclosing(lag),
        measuring(backlog.measure),
    ):
        yield
