"""Limit connections in sum and per address; close idle ones and those that do not read responses."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final, Protocol

import structlog

Address = IPv4Address | IPv6Address

LEAST_READ_BYTES: Final = 4096
"""What must leave for a client within the write timeout; at 30 s about the rate of a modem of 1990."""

LOOKS: Final = 6
"""How often per write timeout the answers under way are looked at, so that it is exact to a sixth."""


_log: structlog.stdlib.BoundLogger = structlog.get_logger("veristream.http")


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits on the number of connections, and on the time for reading a response."""

    total: int
    per_address: int
    trusted: tuple[IPv4Network | IPv6Network, ...] = ()
    """Proxies: many callers stand behind one of their addresses, so the cap per address is not theirs."""
    write_timeout_s: float = 30.0


class Connection(Protocol):
    """One connection of the front."""

    @property
    def idle(self) -> bool:
        """Whether no request of it is under way; half a header is none yet."""
        ...

    @property
    def idle_until(self) -> float:
        """When it ends if it stays idle, by the loop's clock."""
        ...

    @property
    def unsent_bytes(self) -> int:
        """Bytes of responses that the client has not read yet."""
        ...

    def drop(self) -> None:
        """End it without finishing anything."""
        ...


@dataclass(slots=True)
class _Unread:
    """How much of a response was unsent when the client last read enough of it."""

    unsent_bytes: int
    since: float


class Connections:
    """Counts the open connections of a front by address and decides which one must go.

    An IPv6 address counts by its /64, which is what one customer of a network is given (RFC 6177).
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._groups: dict[str, set[Connection]] = {}
        self._group_of: dict[Connection, str] = {}
        self._trusted: set[str] = set()
        self._unread: dict[Connection, _Unread] = {}

    def __len__(self) -> int:
        return len(self._group_of)

    def admit(self, connection: Connection, peer: str | None) -> bool:
        """Count a new connection, dropping an idle one if it must be; False when there is no room for it."""
        group, is_trusted = self._place_of(peer)
        members = self._groups.get(group, set())
        if not is_trusted and len(members) >= self._limits.per_address and not self._drop_idle([group]):
            return False
        if len(self) >= self._limits.total and not self._drop_idle(self._largest_first()):
            return False
        self._groups.setdefault(group, set()).add(connection)
        self._group_of[connection] = group
        if is_trusted:
            self._trusted.add(group)
        return True

    def remove(self, connection: Connection) -> None:
        """Forget a connection that ended or was never admitted."""
        self._unread.pop(connection, None)
        group = self._group_of.pop(connection, None)
        if group is None:
            return
        self._groups[group].discard(connection)
        if not self._groups[group]:
            del self._groups[group]
            self._trusted.discard(group)

    def drop_unread(self, now: float) -> int:
        """Close connections that read too little within the write timeout; return how many."""
        late = [one for one in self._group_of if self._is_late(one, now)]
        for connection in late:
            connection.drop()
            self.remove(connection)
        return len(late)

    def _is_late(self, connection: Connection, now: float) -> bool:
        unsent_bytes = connection.unsent_bytes
        if not unsent_bytes:
            self._unread.pop(connection, None)
            return False
        seen = self._unread.get(connection)
        if seen is None or seen.unsent_bytes - unsent_bytes >= LEAST_READ_BYTES:
            self._unread[connection] = _Unread(unsent_bytes, now)
            return False
        seen.unsent_bytes = max(seen.unsent_bytes, unsent_bytes)  # more was written meanwhile
        return now - seen.since >= self._limits.write_timeout_s

    def _drop_idle(self, groups: Iterable[str]) -> bool:
        """Drop the connection that has been idle longest in the first group that has an idle one."""
        for group in groups:
            idle = [one for one in self._groups.get(group, ()) if one.idle]
            if idle:
                oldest = min(idle, key=lambda one: one.idle_until)
                oldest.drop()
                self.remove(oldest)
                return True
        return False

    def _largest_first(self) -> Sequence[str]:
        """Return the groups, those with most connections first and proxies after all others."""
        return sorted(self._groups, key=lambda name: (name in self._trusted, -len(self._groups[name])))

    def _place_of(self, peer: str | None) -> tuple[str, bool]:
        """Return the group of a peer, and whether it is a trusted proxy."""
        try:
            address = ip_address((peer or "").partition("%")[0])
        except ValueError:  # a Unix socket has none
            return "", False
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        trusted = any(address in network for network in self._limits.trusted)
        return _group_of(address), trusted


def _group_of(address: Address) -> str:
    if isinstance(address, IPv4Address):
        return str(address)
    return str(IPv6Address(int(address) >> 64 << 64))


async def keep_dropping_unread(connections: Connections, write_timeout_s: float) -> None:
    """Close connections that do not read their responses, until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(write_timeout_s / LOOKS)
        dropped = connections.drop_unread(loop.time())
        if dropped:
            _log.info("http.unread_dropped", connections=dropped)
