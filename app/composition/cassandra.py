"""Build the Cassandra connection settings; contradictory ones are refused."""

import json
import re
import ssl
from typing import Final

from app.adapters.cassandra.connection import Address
from app.settings import Settings, SettingsRefused

_POINT: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s:\[\],]+)(:(?P<port>\d{1,5}))?")

HIGHEST_PORT: Final = 65_535


def address_of(settings: Settings) -> Address | None:
    """Return contact points and credentials of Cassandra; None when not configured. Blocking.

    Raises:
        SettingsRefused: Settings are malformed, or contradict one another.
    """
    if not settings.cassandra_contact_points:
        return None
    name, password = settings.cassandra_username, settings.cassandra_password
    if (name is None) != (password is None):
        raise SettingsRefused(
            "set both SERVICE_CASSANDRA_USERNAME and SERVICE_CASSANDRA_PASSWORD, or neither"
        )
    return Address(
        contact_points=_points(settings.cassandra_contact_points, settings.cassandra_port),
        port=settings.cassandra_port,
        local_dc=settings.cassandra_local_dc,
        username=name,
        password=None if password is None else password.get_secret_value(),
        tls=_tls(settings),
    )


def _points(listed: str, port: int) -> tuple[tuple[str, int], ...]:
    points = []
    for point in filter(None, map(str.strip, listed.split(","))):
        found = _POINT.fullmatch(point)
        if found is None or not 0 < int(found["port"] or port) <= HIGHEST_PORT:
            raise SettingsRefused(
                "SERVICE_CASSANDRA_CONTACT_POINTS must be host or host:port, separated by commas"
            )
        points.append((found["host"].strip("[]"), int(found["port"] or port)))
    if not points:
        raise SettingsRefused("SERVICE_CASSANDRA_CONTACT_POINTS names no host")
    return tuple(points)


def _tls(settings: Settings) -> ssl.SSLContext | None:
    authority, ours = settings.cassandra_tls_ca_file, settings.cassandra_tls_cert_file
    if settings.cassandra_tls == "off":
        if authority or ours or settings.cassandra_tls_key_file:
            raise SettingsRefused(
                "SERVICE_CASSANDRA_TLS_*_FILE is set, but SERVICE_CASSANDRA_TLS is off; set it on"
            )
        return None
    if (ours is None) != (settings.cassandra_tls_key_file is None):
        raise SettingsRefused(
            "set both SERVICE_CASSANDRA_TLS_CERT_FILE and SERVICE_CASSANDRA_TLS_KEY_FILE, or neither"
        )
    try:
        context = ssl.create_default_context(cafile=authority)
    except (OSError, ssl.SSLError) as error:
        raise SettingsRefused(
            f"SERVICE_CASSANDRA_TLS_CA_FILE holds no certificate in PEM: {error}"
        ) from error
    context.check_hostname = authority is None
    if ours is not None:
        try:
            context.load_cert_chain(ours, settings.cassandra_tls_key_file, password=lambda: "")
        except (OSError, ssl.SSLError) as error:
            files = "SERVICE_CASSANDRA_TLS_CERT_FILE and SERVICE_CASSANDRA_TLS_KEY_FILE"
            fix = "give a certificate and its own key in PEM, the key without a passphrase"
            raise SettingsRefused(f"{files} cannot be used ({type(error).__name__}); {fix}") from error
    return context


def replication_of(settings: Settings) -> dict[str, int]:
    """Return how many copies each data centre keeps.

    Raises:
        SettingsRefused: It is neither a number nor JSON that says so.
    """
    try:
        asked = json.loads(settings.cassandra_replication)
    except ValueError:
        asked = None
    copies = {settings.cassandra_local_dc: asked} if isinstance(asked, int) else asked
    if not isinstance(copies, dict) or not copies or not all(map(_is_copies, copies.values())):
        raise SettingsRefused(
            'SERVICE_CASSANDRA_REPLICATION must be a number of copies, or {"data centre": copies, ...}'
        )
    return copies


def _is_copies(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
