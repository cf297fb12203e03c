"""Commands of users of the embedded broker: `broker-user create`, `list` and `delete`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from app.adapters.files.data_dir import BROKER_ADDRESS_FILE
from app.broker.errors import BrokerError
from app.cli.options import AsJson, DataDir, settings_of
from app.process.output import out, say_json, say_pairs, table
from app.process.startup import CannotStart
from app.settings import Settings, SettingsRefused
from schemas.base import rfc3339
from schemas.topics import READABLE_DOWNSTREAM

if TYPE_CHECKING:
    from app.broker.users import UserFiles

broker_users = typer.Typer(no_args_is_help=True, help="Downstream systems that read decisions.")

Name = Annotated[
    str,
    typer.Argument(help="a-z, 0-9 and -; its consumer groups are NAME and NAME.*.", metavar="NAME"),
]


@broker_users.command("create")
def create(
    name: Name,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Add a user who may read decisions and nothing else, and show its password once.

    Works while the service runs. Any Kafka client signs in with SCRAM-SHA-512 or SCRAM-SHA-256.

    Try:

      veristream broker-user create billing

      veristream broker-user create billing --json
    """
    made = create_user(settings_of(data_dir), name)
    if as_json:
        say_json({**made.pairs, "client_configuration": made.client_configuration})
        return
    say_pairs(made.pairs, as_json=False)
    out.print(f"\nkcat -F {name}.conf -G {name} {made.topic}   # with this {name}.conf:\n", highlight=False)
    for option, value in made.client_configuration.items():
        out.print(f"{option}={value}", highlight=False, soft_wrap=True)


@broker_users.command("list")
def show(
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Show the users and when they were made.

    Try:

      veristream broker-user list --json
    """
    users = list_users(settings_of(data_dir))
    if as_json:
        say_json(users)
        return
    out.print(table("Broker users", ("user", "created at"), [tuple(user.values()) for user in users]))


@broker_users.command("delete")
def delete(
    name: Name,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Remove a user; its open connections are closed.

    Try:

      veristream broker-user delete billing
    """
    say_pairs(delete_user(settings_of(data_dir), name), as_json=as_json)


MECHANISM: Final = "SCRAM-SHA-512"
"""Shown to clients; SCRAM-SHA-256 with the same password works as well."""

PROTOCOL: Final = "SASL_PLAINTEXT"
"""Loopback needs no TLS, and SCRAM never shows the password."""


@dataclass(frozen=True, slots=True)
class MadeUser:
    """A user with its password, which is shown this once."""

    bootstrap: str
    user: str
    password: str

    @property
    def pairs(self) -> dict[str, str]:
        """Connection settings of a client, by name."""
        return {
            "bootstrap": self.bootstrap,
            "security_protocol": PROTOCOL,
            "mechanism": MECHANISM,
            "user": self.user,
            "password": self.password,
            "topics": ", ".join(sorted(READABLE_DOWNSTREAM)),
            "groups": f"{self.user}, {self.user}.*",
        }

    @property
    def topic(self) -> str:
        """One topic it may read, for an example."""
        return min(READABLE_DOWNSTREAM)

    @property
    def client_configuration(self) -> dict[str, str]:
        """The same in the words of librdkafka, which kcat and confluent-kafka take."""
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": PROTOCOL,
            "sasl.mechanisms": MECHANISM,
            "sasl.username": self.user,
            "sasl.password": self.password,
            "group.id": self.user,
        }


def create_user(settings: Settings, name: str) -> MadeUser:
    """Add a user who may read the public topics; works while the service runs.

    Raises:
        CannotStart: The name cannot be one or is taken, or no broker ever ran in the data folder.
        SettingsRefused: The deployment has a Kafka, whose own users these are not.
    """
    bootstrap = _address(_embedded(settings))
    try:
        return MadeUser(bootstrap, name, _files(settings).create(name, datetime.now(UTC)))
    except BrokerError as error:
        raise CannotStart(str(error)) from error


def list_users(settings: Settings) -> Sequence[dict[str, str]]:
    """Return every user but the service itself. Raises as `create_user` does."""
    _address(_embedded(settings))
    try:
        readers = _files(settings).readers()
    except BrokerError as error:
        raise CannotStart(f"{error}; start a broker first: veristream up") from error
    return [{"user": name, "created_at": rfc3339(created_at)} for name, created_at in readers.items()]


def delete_user(settings: Settings, name: str) -> dict[str, str]:
    """Remove a user; its open connections end within a second or two. Raises as `create_user` does."""
    _address(_embedded(settings))
    try:
        _files(settings).delete(name)
    except BrokerError as error:
        raise CannotStart(str(error)) from error
    return {"deleted": name}


def _embedded(settings: Settings) -> Settings:
    if settings.kafka_bootstrap is not None:
        raise SettingsRefused(
            "SERVICE_KAFKA_BOOTSTRAP names a Kafka, which has users of its own; make them there "
            "with kafka-configs.sh and kafka-acls.sh"
        )
    return settings


def _address(settings: Settings) -> str:
    try:
        return (settings.broker_dir / BROKER_ADDRESS_FILE).read_text(encoding="ascii").strip()
    except OSError as error:
        fix = f"start one with: veristream up --data-dir {settings.data_dir}"
        raise CannotStart(f"no broker ever ran in {settings.broker_dir}; {fix}") from error


def _files(settings: Settings) -> "UserFiles":
    from app.broker.users import UserFiles

    return UserFiles(settings.broker_users_dir)
