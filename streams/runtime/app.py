"""Build the Faust app with the settings of every worker."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import faust

from streams.runtime.bookkeeping import NoMonitor, NoSensors
from streams.runtime.consumer import PatchedTransport
from streams.runtime.fetch_waits import ENDED_WAIT_MS
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.record_batches import MAX_BATCH_BYTES
from streams.runtime.tables import PromptTables

GROUP: Final = "veristream-v1"
"""Consumer group and prefix of changelogs; its version rises when a partition count changes."""

_MOST_PARTITIONS: Final = 8
_REBALANCE_S: Final = 30.0
_REQUEST_S: Final = 40.0
_METADATA_MS: Final = 10_000
"""A worker that joined its group before its topics were there, because a broker lost them, has no partition
until it reads the metadata again; aiokafka would wait five minutes."""

LINGER_MS: Final = 100
"""How long entries of changelogs are collected; nobody waits for them but a commit, which sends them."""


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """Settings of a worker. `_s` are seconds."""

    access: LogAccess
    """Where the log is; changelogs are created with its replication factor."""
    datadir: Path
    """Where Faust keeps what a store other than `memory://` writes; one worker per directory."""
    group: str = GROUP
    store: str = "memory://"
    """Tables are bounded and come back from their changelogs; nothing needs a disk."""
    session_timeout_s: float = 8.0
    """How long a silent worker counts as alive; then its partitions are given to the others."""
    heartbeat_s: float = 1.0
    commit_interval_s: float = 0.5
    """What a killed worker had settled since its last commit is delivered again."""
    drain_s: float = 4.0
    """How long a stop or a rebalance waits for what is in work; what takes longer is delivered again."""
    buffer: int = 256
    """Records per partition waiting for their agent."""


def build_app(settings: StreamSettings) -> faust.App:
    """Return an app with the patched consumer and no agent yet; it starts nothing and has no web server.

    One app lives once: after it stopped or crashed, build another.
    """
    access, brokers = settings.access, settings.access.brokers()
    app = faust.App(
        settings.group,
        autodiscover=False,
        broker=brokers,
        broker_credentials=credentials_of(access),
        datadir=str(settings.datadir),
        store=settings.store,
        processing_guarantee="at_least_once",
        topic_partitions=_MOST_PARTITIONS,
        topic_replication_factor=access.replication_factor,
        topic_allow_declare=False,  # every topic exists before; agents need no permission to create any
        topic_disable_leader=True,
        table_standby_replicas=0,
        broker_session_timeout=settings.session_timeout_s,
        broker_heartbeat_interval=settings.heartbeat_s,
        broker_rebalance_timeout=_REBALANCE_S,
        broker_request_timeout=max(_REQUEST_S, settings.session_timeout_s),  # Faust refuses less
        broker_commit_interval=settings.commit_interval_s,
        consumer_metadata_max_age_ms=_METADATA_MS,
        stream_buffer_maxsize=settings.buffer,
        stream_wait_empty=True,
        producer_acks=-1,
        producer_linger_ms=LINGER_MS,
        producer_max_batch_size=MAX_BATCH_BYTES,
        web_enabled=False,
        worker_redirect_stdouts=False,
        TableManager=PromptTables,
        Monitor=NoMonitor,
    )
    app.sensors = NoSensors(app)
    transport = PatchedTransport(brokers, app)
    transport.drain_s = settings.drain_s
    if access.ends_waiting_fetches:
        transport.patient_wait_ms = ENDED_WAIT_MS
    app.transport = transport
    return app


def credentials_of(access: LogAccess) -> faust.SASLCredentials | faust.SSLCredentials | None:
    """Return TLS and sign-in in Faust's words."""
    if access.sign_in is not None:
        return faust.SASLCredentials(
            username=access.sign_in.username,
            password=access.sign_in.password.get_secret_value(),
            mechanism=access.sign_in.mechanism.value,
            ssl_context=access.tls,
        )
    return faust.SSLCredentials(access.tls) if access.tls is not None else None
