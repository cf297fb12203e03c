"""Settings of a deployment: `SERVICE_*` variables, secrets also from `SERVICE_*_FILE`; read once."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)
from typing_extensions import override

from app.adapters.files.data_dir import BLOBS_FOLDER, BROKER_FOLDER, CHECKPOINTS_FOLDER, USERS_FOLDER
from app.broker.settings import Fsync
from app.configuration.front import parse_rate_limits, require_usable
from app.configuration.placeholders import fault_of_token
from streams.runtime.kafka_client_config import SaslMechanism
from streams.verification.policy import FACE_FAIL_AT, FACE_FAIL_MOST, FACE_PASS_AT, FACE_PASS_MOST
from streams.webhooks.urls import USUAL_PORTS

PREFIX: Final = "SERVICE_"

OPERATOR_TOKEN_MINIMUM: Final = 32
"""Characters; anything shorter could be guessed (S32)."""

MAKE_A_TOKEN: Final = "make one with: openssl rand -base64 48"  # noqa: S105 - a command that makes one


Port = Annotated[int, Field(ge=1, le=65535)]
"""A TCP port something can listen on."""


class SettingsRefused(Exception):
    """A setting cannot be used; the message names the variable and the fix."""


class SecretFiles(PydanticBaseSettingsSource):
    """Reads `SERVICE_X_FILE` for a setting `X`, so that secrets can be mounted instead of exported."""

    @override
    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        path = os.environ.get(f"{PREFIX}{field_name.upper()}_FILE")
        if not path:
            return None, field_name, False
        try:
            return Path(path).read_text(encoding="utf-8").strip(), field_name, False
        except OSError as error:
            message = f"{PREFIX}{field_name.upper()}_FILE names a file that cannot be read: {error.strerror}"
            raise SettingsRefused(message) from error

    @override
    def __call__(self) -> dict[str, Any]:
        found = {name: self.get_field_value(info, name)[0] for name, info in self._secrets()}
        return {name: value for name, value in found.items() if value is not None}

    def _secrets(self) -> list[tuple[str, FieldInfo]]:
        fields = self.settings_cls.model_fields.items()
        return [(name, info) for name, info in fields if "SecretStr" in str(info.annotation)]


class Settings(BaseSettings):
    """The deployment as configured; unset means the embedded engines."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter="__", frozen=True, extra="ignore"
    )

    data_dir: Path = Path("veristream-data")
    """Where everything is stored: broker log, store, evidence, root key."""
    host: str = "127.0.0.1"
    """The address the front listens on; put a TLS proxy before anything wider than loopback."""
    port: int = Field(default=8080, ge=0, le=65535)
    health_port: int | None = Field(default=None, ge=0, le=65535)
    """Loopback port on which a process serves /livez, /readyz and /metrics; unset: none."""
    metrics: Literal["health", "token", "off"] = "health"
    """Where /metrics is: on the health port alone; beside it on the front's port for the operator's token;
    or nowhere (S66)."""
    base_url: str | None = None
    """How tenants reach the front; it stands in problem types and links. Unset: the listening address."""
    trusted_proxies: Annotated[tuple[IPv4Network | IPv6Network, ...], NoDecode] = ()
    """Networks of the proxies before the front, with commas; what they forward of callers is believed."""
    connections_per_address: int = Field(default=128, ge=1, le=100_000)
    """Connections to the front of one address at one time; proxies in `trusted_proxies` have no such cap."""
    root_key: SecretStr | None = None
    """32 bytes, base64 or hexadecimal; unset: a 0600 file made at first start in the data folder."""
    sender_key: SecretStr | None = None
    """Instead of the root key, for a worker of `webhooks,deliveries`; `veristream sender-key` prints it."""
    platform_operator_token: SecretStr | None = None
    rate_limits: str = "on"
    """`on`, `off` (benchmarks), or the numbers of G62 as JSON."""
    lists_update: str | None = Field(default=None, pattern=r"^([1-9]|[1-9][0-9]{1,2})h$")
    """Hours after which a worker downloads lists again, such as `12h`; unset: never by itself."""
    kafka_bootstrap: str | None = None
    """`host:port` of an Apache Kafka's brokers, with commas; unset: the embedded broker."""
    kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    kafka_sasl_mechanism: SaslMechanism = SaslMechanism.SCRAM_SHA_512
    kafka_username: str | None = None
    kafka_password: SecretStr | None = None
    kafka_tls_ca_file: Path | None = None
    """PEM of the CA that signed the brokers' certificates; unset: the authorities of this machine."""
    kafka_tls_cert_file: Path | None = None
    """PEM of our own certificate, where the brokers ask for one."""
    kafka_tls_key_file: Path | None = None
    """PEM of its key, without a passphrase."""
    kafka_replication_factor: int = Field(default=1, ge=1, le=100)
    """Copies of each partition of the topics we create; 3 is usual on a cluster."""
    kafka_min_insync_replicas: int = Field(default=1, ge=1, le=100)
    """Copies that must have a record before it counts as written; 2 of 3 is usual."""
    cassandra_contact_points: str | None = None
    """Nodes of an Apache Cassandra, host or host:port, with commas; unset: SQLite in the data folder."""
    cassandra_port: int = Field(default=9042, ge=1, le=65535)
    """For contact points that name none, and for the nodes they report."""
    cassandra_keyspace: str = "veristream"
    """Made by `veristream migrate`."""
    cassandra_local_dc: str = "datacenter1"
    """The data centre whose nodes are asked; `nodetool status` names it."""
    cassandra_replication: str = "1"
    """Copies in the local data centre, or {"data centre": copies, ...}; counts when `migrate` makes the
    keyspace."""
    cassandra_username: str | None = None
    cassandra_password: SecretStr | None = None
    cassandra_tls: Literal["off", "on"] = "off"
    cassandra_tls_ca_file: Path | None = None
    """PEM of the CA that signed the nodes' certificates, whatever names stand in them; unset: the
    authorities of this machine, and then the names must be those of the nodes."""
    cassandra_tls_cert_file: Path | None = None
    """PEM of our own certificate, where the nodes ask for one."""
    cassandra_tls_key_file: Path | None = None
    """PEM of its key, without a passphrase."""
    blobs_dir: Path | None = None
    """The folder of large evidence, the same for every process; unset: `blobs` in the data folder."""
    audit_checkpoints_dir: Path | None = None
    """Where the worker appends the audit log's signed checkpoints; best a disk that an account which
    can write the store cannot write; unset: `audit-checkpoints` in the data folder."""
    broker_port: int = Field(default=0, ge=0, le=65535)
    """0: a free port, remembered in the data folder."""
    broker_fsync: Fsync = Fsync.INTERVAL
    front_instance: int | None = Field(default=None, ge=0, le=15)
    """Which partition of answers this front reads; unset: any. Fronts that share one only read more."""
    reuse_port: bool = False
    """Let several fronts on this machine share the port; the system spreads connections over them."""
    front_drain_s: float = Field(default=2.0, ge=0, le=300)
    """How long a stopping front is not ready on /readyz before it takes no more connections."""
    stop_grace_s: float = Field(default=8.0, gt=0, le=300)
    """How long a stop waits for decisions under way; who waits longer gets 503 and finds it later."""
    answer_timeout_s: float = Field(default=30.0, gt=0, le=300)
    """How long a request waits for its decision before 503 DECISION_PENDING."""
    worker_session_timeout_s: float = Field(default=8.0, ge=6, le=300)
    """How long a silent worker counts as alive; its partitions answer again one to two seconds later."""
    vision_workers: int = Field(default_factory=lambda: os.cpu_count() or 1, ge=1, le=64)
    """Child processes that run the models."""
    vision_queue: int = Field(default=32, ge=1)
    """Model jobs that may wait; over it the answer is 503 OVERLOADED."""
    verifications_at_once: int | None = Field(default=None, ge=1, le=1024)
    """Verifications with models that a front releases to the workers at one time; unset: two more than
    `vision_workers`, so that none of these waits while images are decoded and decisions stored. With workers
    elsewhere: their vision workers over the number of fronts, and two."""
    webhooks_allow_insecure: bool = False
    """For development alone: webhooks may go to http, to this machine's loopback and to any port."""
    webhooks_ports: Annotated[frozenset[Port], NoDecode] = Field(default=USUAL_PORTS, min_length=1)
    """Ports of webhook receivers, with commas; another one is refused, registered before or not (S36)."""
    session_idle_minutes: int = Field(default=30, ge=1, le=30)
    """A reviewer session that is not used for so long is over."""
    session_hours: int = Field(default=12, ge=1, le=12)
    """A reviewer session is over after so long, used or not."""
    totp_drift_steps: int = Field(default=1, ge=0, le=1)
    """Steps of 30 s either way in which a one-time code is good; 0 is what ASVS 6.5.5 asks for."""
    faces: dict[str, Any] | None = None
    """An operator's face models as JSON, each with its SHA-256; unset: the default engine."""
    face_accept_at: float = Field(default=FACE_PASS_AT, gt=0, le=FACE_PASS_MOST)
    """Distances of the default face engine up to this one are the same person."""
    face_reject_above: float = Field(default=FACE_FAIL_AT, gt=0, le=FACE_FAIL_MOST, validate_default=True)
    """Distances of the default face engine above this one are another person; in between somebody looks."""
    liveness: dict[str, Any] | None = None
    """An operator's liveness models as JSON; unset: LIVENESS is not evaluated."""
    log_format: Literal["auto", "json", "pretty"] = "auto"
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @field_validator("base_url", mode="after")
    @classmethod
    def _not_in_the_clear(cls, url: str | None) -> str | None:
        return require_usable(url) if url else None

    @field_validator("trusted_proxies", "webhooks_ports", mode="before")
    @classmethod
    def _between_commas(cls, given: object) -> object:
        if not isinstance(given, str):
            return given
        return [part.strip() for part in given.split(",") if part.strip()]

    @field_validator("rate_limits", mode="after")
    @classmethod
    def _limits(cls, setting: str) -> str:
        parse_rate_limits(setting)
        return setting

    @field_validator("platform_operator_token", "root_key", "sender_key", mode="after")
    @classmethod
    def _empty_is_unset(cls, secret: SecretStr | None) -> SecretStr | None:
        return secret if secret is not None and secret.get_secret_value().strip() else None

    @field_validator("face_accept_at", "face_reject_above", mode="after")
    @classmethod
    def _of_default_engine(cls, threshold: float, given: ValidationInfo) -> float:
        usual = cls.model_fields[str(given.field_name)].default
        if given.data.get("faces") is not None and threshold != usual:
            raise ValueError(
                "is for the default engine; the embedder of SERVICE_FACES has pass_at and fail_at"
            )
        return threshold

    @field_validator("face_reject_above", mode="after")
    @classmethod
    def _band_in_order(cls, reject_above: float, given: ValidationInfo) -> float:
        accept_at = given.data.get("face_accept_at")
        if accept_at is not None and reject_above < accept_at:
            raise ValueError(f"must not be below {PREFIX}FACE_ACCEPT_AT")
        return reject_above

    @field_validator("platform_operator_token", mode="after")
    @classmethod
    def _unguessable(cls, secret: SecretStr | None) -> SecretStr | None:
        if secret is None:
            return None
        token = secret.get_secret_value()
        if len(token) < OPERATOR_TOKEN_MINIMUM:
            raise ValueError(f"needs {OPERATOR_TOKEN_MINIMUM} characters or more; {MAKE_A_TOKEN}")
        fault = fault_of_token(token)
        if fault is not None:
            raise ValueError(f"{fault} and can be guessed; {MAKE_A_TOKEN}")
        return secret

    @classmethod
    @override
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, SecretFiles(settings_cls)

    @property
    def broker_dir(self) -> Path:
        """The embedded broker's log."""
        return self.data_dir / BROKER_FOLDER

    @property
    def broker_users_dir(self) -> Path:
        """The folder of the embedded broker's users; apart from its log, which may be lost."""
        return self.data_dir / USERS_FOLDER


def read_settings(**given: Any) -> Settings:
    """Read the settings once; values given on the command line win over the environment.

    Raises:
        SettingsRefused: A setting is malformed; the message names the variable, never its value.
    """
    chosen = {name: value for name, value in given.items() if value is not None}
    with refused_settings():
        return Settings(**chosen)


@contextmanager
def refused_settings() -> Iterator[None]:
    """Turn a malformed value into `SettingsRefused`; it names the variable, never the value."""
    try:
        yield
    except ValidationError as error:
        lines = (f"{PREFIX}{'__'.join(map(str, e['loc'])).upper()}: {e['msg']}" for e in error.errors())
        raise SettingsRefused("; ".join(lines)) from None
    except SettingsError as error:
        raise SettingsRefused(f"a {PREFIX}* variable holds malformed JSON: {error}") from None


def blobs_dir_of(settings: Settings) -> Path:
    """Return the folder of large evidence."""
    return settings.blobs_dir or settings.data_dir / BLOBS_FOLDER


def checkpoints_dir_of(settings: Settings) -> Path:
    """Return the folder of the audit log's checkpoints."""
    return settings.audit_checkpoints_dir or settings.data_dir / CHECKPOINTS_FOLDER
