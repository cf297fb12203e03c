"""Connect to the log, the embedded broker or a configured Kafka, and prepare its topics."""

import asyncio
import errno
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from app.adapters.files.data_dir import BROKER_ADDRESS_FILE
from app.broker.errors import BrokerError, UsersUnusable
from app.broker.server import Broker
from app.broker.settings import Authentication, BrokerSettings
from app.broker.users import OWNER, UserFiles
from app.kafka.diagnostics import Unreachable, reach
from app.process.startup import LOOPBACK, CannotStart, taken
from app.settings import Settings, SettingsRefused
from schemas.problems import StoreUnavailable
from schemas.topics import READABLE_DOWNSTREAM, Topic
from streams.flows import agent as flows_agent
from streams.reviews import agent as reviews_agent
from streams.runtime.app import GROUP
from streams.runtime.kafka_client_config import LogAccess, SaslMechanism, SignIn
from streams.runtime.topics import BrokersMissing, TopicUnfit, ensure_topics
from streams.sessions import agent as sessions_agent
from streams.transactions import agent as transactions_agent
from streams.verification import agent as verification_agent
from streams.webhooks import agent as webhooks_agent

PATIENCE_S: Final = 30.0
"""How long a start waits for brokers that may be starting themselves."""

_TRY_AGAIN_S: Final = 0.5
_CERTAIN: Final = 2
"""So many refusals in a row, and waiting does not help; one could be a broker that is just ending."""


@asynccontextmanager
async def open_broker(settings: Settings) -> AsyncIterator[LogAccess]:
    """Run the embedded broker on its remembered port, or give the access to the configured Kafka.

    Raises:
        CannotStart: Another process has the log, or the port is taken.
        SettingsRefused: The settings of the access contradict each other.
    """
    if settings.kafka_bootstrap is not None:
        yield access_of(settings)
        return
    remembered = settings.broker_dir / BROKER_ADDRESS_FILE
    port = settings.broker_port or _free_again(remembered)
    users = UserFiles(settings.broker_users_dir)
    wanted = BrokerSettings(
        directory=settings.broker_dir,
        port=port,
        fsync=settings.broker_fsync,
        auto_create_topics=False,
        authentication=Authentication(users.path, frozenset(map(str, READABLE_DOWNSTREAM))),
    )
    async with AsyncExitStack() as stack:
        try:
            password = await asyncio.to_thread(users.ensure_owner, datetime.now(UTC))
            opened = await stack.enter_async_context(Broker(wanted))
        except (OSError, BrokerError) as error:
            if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
                raise taken(port, LOOPBACK, "--broker-port", error) from error
            raise CannotStart(f"the embedded broker cannot start: {error}") from error
        remembered.write_text(opened.address + "\n", encoding="ascii")
        yield LogAccess(opened.address, sign_in=_owner(password), ends_waiting_fetches=True)


def _owner(password: str) -> SignIn:
    """Return how the service's own processes sign in to the embedded broker."""
    return SignIn(SaslMechanism.SCRAM_SHA_256, OWNER, SecretStr(password))


def _free_again(remembered: Path) -> int:
    """Return the port used last when it can be had again, else 0."""
    try:
        port = int(remembered.read_text(encoding="ascii").strip().rpartition(":")[2])
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((LOOPBACK, port))
    except (OSError, ValueError):
        return 0
    return port


def access_of(settings: Settings) -> LogAccess:
    """Return how the log of this deployment is reached.

    Raises:
        CannotStart: None is configured and none ever ran in the data folder.
        SettingsRefused: The settings of the access contradict each other, or a file of theirs is unusable.
    """
    if settings.kafka_bootstrap is not None:
        return _configured(settings, settings.kafka_bootstrap)
    remembered = settings.broker_dir / BROKER_ADDRESS_FILE
    fix = f"start one with: veristream broker --data-dir {settings.data_dir}"
    try:
        address = remembered.read_text(encoding="ascii").strip()
        owner = _owner(UserFiles(settings.broker_users_dir).owner_password())
    except OSError as error:
        raise CannotStart(f"no broker runs in {settings.broker_dir}; {fix}") from error
    except UsersUnusable as error:
        raise CannotStart(f"the broker cannot be signed in to: {error}; {fix}") from error
    return LogAccess(address, sign_in=owner, ends_waiting_fetches=True)


def _configured(settings: Settings, bootstrap: str) -> LogAccess:
    if settings.kafka_min_insync_replicas > settings.kafka_replication_factor:
        raise SettingsRefused(
            "SERVICE_KAFKA_MIN_INSYNC_REPLICAS is larger than SERVICE_KAFKA_REPLICATION_FACTOR; "
            "nothing could be written"
        )
    return LogAccess(
        bootstrap=bootstrap,
        tls=_tls(settings),
        sign_in=_sign_in(settings),
        replication_factor=settings.kafka_replication_factor,
        min_insync_replicas=settings.kafka_min_insync_replicas,
    )


def _sign_in(settings: Settings) -> SignIn | None:
    name, password = settings.kafka_username, settings.kafka_password
    protocol = settings.kafka_security_protocol
    if not protocol.startswith("SASL_"):
        if name or password:
            raise SettingsRefused(
                "SERVICE_KAFKA_USERNAME or SERVICE_KAFKA_PASSWORD is set, but "
                f"SERVICE_KAFKA_SECURITY_PROTOCOL is {protocol}; set it to SASL_SSL"
            )
        return None
    if not name or not password:
        raise SettingsRefused(
            f"{protocol} needs SERVICE_KAFKA_USERNAME and SERVICE_KAFKA_PASSWORD (or _FILE)"
        )
    return SignIn(settings.kafka_sasl_mechanism, name, password)


def _tls(settings: Settings) -> ssl.SSLContext | None:
    authority, ours = settings.kafka_tls_ca_file, settings.kafka_tls_cert_file
    protocol = settings.kafka_security_protocol
    if not protocol.endswith("SSL"):
        if authority or ours or settings.kafka_tls_key_file:
            raise SettingsRefused(
                f"SERVICE_KAFKA_TLS_*_FILE is set, but SERVICE_KAFKA_SECURITY_PROTOCOL is {protocol}; "
                "set it to SSL or SASL_SSL"
            )
        return None
    if (ours is None) != (settings.kafka_tls_key_file is None):
        raise SettingsRefused(
            "set both SERVICE_KAFKA_TLS_CERT_FILE and SERVICE_KAFKA_TLS_KEY_FILE, or neither"
        )
    try:
        context = ssl.create_default_context(cafile=authority)
    except (OSError, ssl.SSLError) as error:
        raise SettingsRefused(f"SERVICE_KAFKA_TLS_CA_FILE holds no certificate in PEM: {error}") from error
    if ours is not None:
        try:
            context.load_cert_chain(ours, settings.kafka_tls_key_file, password=lambda: "")
        except (OSError, ssl.SSLError) as error:
            files = "SERVICE_KAFKA_TLS_CERT_FILE and SERVICE_KAFKA_TLS_KEY_FILE"
            fix = "give a certificate and its own key in PEM, the key without a passphrase"
            raise SettingsRefused(f"{files} cannot be used ({type(error).__name__}); {fix}") from error
    return context


async def prepare_topics(access: LogAccess, patience_s: float = PATIENCE_S) -> None:
    """Create the topics; brokers that are still starting are waited for.

    Raises:
        CannotStart: No broker can be spoken with, too few are alive, or a topic is unfit.
    """
    loop, refusals = asyncio.get_running_loop(), 0
    deadline = loop.time() + patience_s
    while True:
        try:
            await reach(access)
            await ensure_topics(access, GROUP, TABLES)
        except TopicUnfit as error:
            raise CannotStart(str(error)) from error
        except StoreUnavailable as error:
            refusals = refusals + 1 if isinstance(error, Unreachable) and error.certain else 0
            if refusals >= _CERTAIN or loop.time() > deadline:
                raise CannotStart(_why(access, error)) from error
            await asyncio.sleep(_TRY_AGAIN_S)
        else:
            return


def _why(access: LogAccess, error: StoreUnavailable) -> str:
    match error:
        case BrokersMissing():
            fix = "start the others, or set SERVICE_KAFKA_REPLICATION_FACTOR lower"
            return f"Kafka at {access.bootstrap} has too few brokers: {error}; {fix}"
        case Unreachable():
            return f"Kafka cannot be reached: {error}"
        case _:
            fix = "if brokers run, look at what they advertise (advertised.listeners) and at their log"
            return f"the topics cannot be prepared at {access.bootstrap}: {error}; {fix}"


TABLES: Final[Mapping[str, Topic]] = {
    verification_agent.TABLE: Topic.VERIFICATION_COMMANDS,
    flows_agent.TABLE: Topic.FLOW_COMMANDS,
    sessions_agent.TABLE: Topic.SESSION_COMMANDS,
    reviews_agent.TABLE: Topic.REVIEW_COMMANDS,
    transactions_agent.TABLE: Topic.TRANSACTION_COMMANDS,
    transactions_agent.KEYED_TABLE: Topic.TRANSACTION_KEYS,
    webhooks_agent.TABLE: Topic.WEBHOOK_DELIVERIES,
}
"""Each table with the topic whose partitions its changelog shares."""
