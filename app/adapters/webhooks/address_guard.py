"""Block webhook connections to private addresses: every resolved address is checked at every attempt.

A name is looked up anew each time and refused whole if any of its addresses may not be called; where a socket
is made its address is judged once more, whatever led there (S34, S35).
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from threading import Thread
from typing import Any, Final

from aiohttp.abc import AbstractResolver, ResolveResult
from typing_extensions import override

from streams.webhooks.addresses import is_public

LookUp = Callable[[str], Awaitable[Sequence[str]]]
"""Returns the addresses of a name as text, or raises `OSError` (`socket.gaierror` when there is none)."""

ADDRESSES_MOST: Final = 8
"""Addresses of a name that are tried; a name with thousands would have us knock at thousands of doors."""

_DISCARD_PORT: Final = 9
"""Any port does, for nothing is sent."""


class AddressRefused(OSError):
    """The address is not one a webhook may be sent to."""


class AddressGuard:
    """Judges addresses; `insecure` allows this machine's loopback as well."""

    def __init__(self, *, insecure: bool) -> None:
        self._insecure = insecure

    def admit(self, text: str) -> IPv4Address | IPv6Address:
        """Return the address, or raise `AddressRefused`; one of this machine's own is no receiver's."""
        try:
            address = ip_address(text)
        except ValueError:
            raise AddressRefused("not an address") from None
        if self._insecure and address.is_loopback:
            return address
        if not is_public(address) or _is_own(address):
            raise AddressRefused("not an address of a receiver")
        return address

    def open_socket(self, info: tuple[Any, ...]) -> socket.socket:
        """Return a socket for this entry of `getaddrinfo` after checking its address again.

        Raises:
            AddressRefused: Nothing may be sent there, or it is no TCP connection.
        """
        family, kind, protocol, _, target = info
        if family not in {socket.AF_INET, socket.AF_INET6} or kind != socket.SOCK_STREAM:
            raise AddressRefused("not a TCP connection")
        scoped = family == socket.AF_INET6 and target[3]
        self.admit(f"{target[0]}%{target[3]}" if scoped else target[0])
        return socket.socket(family, kind, protocol)


def _is_own(address: IPv4Address | IPv6Address) -> bool:
    """Return whether the address is one of this machine."""
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET  # noqa: PLR2004 - of IP
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as asked:
        asked.connect((str(address), _DISCARD_PORT))
        return ip_address(asked.getsockname()[0]) == address
    return False


class GuardedResolver(AbstractResolver):
    """Resolver that looks up a name at each attempt, and refuses it if any address is blocked."""

    def __init__(self, look_up: LookUp, guard: AddressGuard) -> None:
        self._look_up, self._guard = look_up, guard

    @override
    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        addresses = [self._guard.admit(text) for text in await self._look_up(host)]
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "the name has no address")
        return [
            ResolveResult(
                hostname=host,
                host=str(address),
                port=port,
                family=socket.AF_INET6 if address.version == 6 else socket.AF_INET,  # noqa: PLR2004 - of IP
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST,
            )
            for address in dict.fromkeys(addresses[:ADDRESSES_MOST])
        ]

    @override
    async def close(self) -> None:
        """Hold nothing that must be closed."""


class SystemNames:
    """Resolve names by the system, in threads.

    A name server that does not answer holds its thread for as long as the system waits; such threads hold up
    neither other work nor the end of the process, and there are never more than `most` of them.
    """

    def __init__(self, most: int = 256) -> None:
        self._most, self._under_way = most, 0

    async def __call__(self, host: str) -> Sequence[str]:
        """Return the addresses of a name.

        Raises:
            OSError: It has none, or cannot be looked up now.
        """
        if self._under_way >= self._most:
            raise TimeoutError("too many names are being looked up")
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Sequence[str]] = loop.create_future()

        def resolved(found: Sequence[str] | OSError) -> None:
            self._under_way -= 1
            if answered.done():
                return
            if isinstance(found, OSError):
                answered.set_exception(found)
            else:
                answered.set_result(found)

        def ask() -> None:
            found = _addresses_of(host)
            with suppress(RuntimeError):  # the loop has ended, nobody waits
                loop.call_soon_threadsafe(resolved, found)

        self._under_way += 1
        Thread(target=ask, name="webhook-name", daemon=True).start()
        return await answered


def _addresses_of(host: str) -> Sequence[str] | OSError:
    try:
        infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    except OSError as error:
        return error
    except UnicodeError:
        return socket.gaierror(socket.EAI_NONAME, "not a name")
    return [_address_of(info[4]) for info in infos]


def _address_of(target: tuple[Any, ...]) -> str:
    scoped = len(target) > 2 and target[3] and "%" not in target[0]  # noqa: PLR2004 - IPv4 has two parts
    return f"{target[0]}%{target[3]}" if scoped else str(target[0])
