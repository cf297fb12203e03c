"""Gives a Cassandra its two roles, at first start or again: the service's own, and an administrator."""  # noqa: INP001 - a script, mounted into a container by the one-shot service `roles` of docker-compose.yml

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import Cluster, NoHostAvailable

FIRST_ROLE: Final = "cassandra"
"""Name and password of the superuser a new Cassandra makes for itself, seconds after it opens its port."""

PATIENCE_S: Final = 120.0


class RolesNotMade(Exception):
    """Nobody could log in as the administrator; the message says how to fix it."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """Where Cassandra is, and the roles it is to have."""

    hosts: tuple[str, ...]
    port: int
    role: str
    password: str
    administrator_password: str


def make_roles(wanted: Deployment, patience_s: float = PATIENCE_S) -> None:
    """Make both roles what they should be; safe to repeat.

    The password every new Cassandra has is replaced first. The service's role may make keyspaces and rule
    those it made, nothing else; after its secret was changed, it gets the new password.

    Raises:
        RolesNotMade: The administrator's password is another one, or no Cassandra answers in time.
    """
    deadline = time.monotonic() + patience_s
    while True:
        for password in (wanted.administrator_password, FIRST_ROLE):
            cluster = _cluster(wanted, password)
            try:
                _settle(cluster.connect(), wanted)
            except NoHostAvailable as refused:
                if time.monotonic() > deadline:
                    fix = "is CASSANDRA_ADMIN_PASSWORD_FILE the one of the first start?"
                    raise RolesNotMade(f"no login as {FIRST_ROLE} at {wanted.hosts}; {fix}") from refused
            else:
                return
            finally:
                cluster.shutdown()
        time.sleep(1)


def _cluster(wanted: Deployment, password: str) -> Any:
    login: Any = PlainTextAuthProvider  # untyped
    cluster: Any = Cluster  # untyped
    return cluster(
        list(wanted.hosts), port=wanted.port, auth_provider=login(FIRST_ROLE, password), connect_timeout=10
    )


def _settle(session: Any, wanted: Deployment) -> None:
    role = '"' + wanted.role.replace('"', '""') + '"'
    session.execute(f"ALTER ROLE {FIRST_ROLE} WITH PASSWORD = {_quoted(wanted.administrator_password)}")
    session.execute(f"CREATE ROLE IF NOT EXISTS {role} WITH LOGIN = true AND SUPERUSER = false")
    session.execute(f"ALTER ROLE {role} WITH PASSWORD = {_quoted(wanted.password)}")
    session.execute(f"GRANT CREATE ON ALL KEYSPACES TO {role}")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _secret(variable: str) -> str:
    return Path(os.environ[variable]).read_text(encoding="utf-8").strip()


def main() -> int:
    """Do it for the deployment that the environment describes; 0 when it is done."""
    wanted = Deployment(
        hosts=tuple(os.environ["SERVICE_CASSANDRA_CONTACT_POINTS"].split(",")),
        port=int(os.environ.get("SERVICE_CASSANDRA_PORT", "9042")),
        role=os.environ["SERVICE_CASSANDRA_USERNAME"],
        password=_secret("SERVICE_CASSANDRA_PASSWORD_FILE"),
        administrator_password=_secret("CASSANDRA_ADMIN_PASSWORD_FILE"),
    )
    try:
        make_roles(wanted)
    except RolesNotMade as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
