"""Check that a webhook's address is globally reachable (G104, S34).

The sources are IANA's special-purpose address registries for IPv4 and IPv6 (RFC 6890, RFC 8190) and its
assignment of global unicast space. Addresses that a cloud reserves inside public space are named beside
them. What the registries call reachable but what no receiver has (translation and relay prefixes) is refused
as well, because another address stands behind it.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final

_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
"""The only space of which IANA hands out addresses of hosts (RFC 4291 2.4, RFC 3513); unlike a list of what
is refused, this is also right for what is reserved today. Outside of it are, among others: unspecified and
loopback, IPv4-compatible, IPv4-mapped `::ffff:0:0/96` and IPv4-translated `::ffff:0:0:0/96` addresses, NAT64
`64:ff9b::/96` and `64:ff9b:1::/48` (RFC 6052, RFC 8215), discard-only `100::/64` (RFC 6666), segment
identifiers `5f00::/16` (RFC 9602), unique-local `fc00::/7` with the clouds' `fd00:ec2::254` (RFC 4193),
link-local `fe80::/10`, site-local `fec0::/10` (RFC 3879) and multicast `ff00::/8`."""

_REFUSED_IPV6: Final = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",  # IETF protocol assignments (RFC 2928): Teredo, benchmarking, ORCHID and ORCHIDv2
        "2001:db8::/32",  # documentation (RFC 3849)
        "2002::/16",  # 6to4 (RFC 3056)
        "2620:4f:8000::/48",  # direct delegation AS112 (RFC 7534)
        "3ffe::/16",  # the former 6bone (RFC 3701)
        "3fff::/20",  # documentation (RFC 9637)
    )
)

_REFUSED_IPV4: Final = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this network (RFC 791)
        "10.0.0.0/8",  # private (RFC 1918)
        "100.64.0.0/10",  # shared between carriers (RFC 6598); 100.100.100.200 is a cloud's metadata
        "127.0.0.0/8",  # loopback (RFC 1122)
        "168.63.129.16/32",  # a cloud's platform address inside public space
        "169.254.0.0/16",  # link-local (RFC 3927); 169.254.169.254 is the metadata of most clouds
        "172.16.0.0/12",  # private (RFC 1918)
        "192.0.0.0/24",  # IETF protocol assignments (RFC 6890); 192.0.0.192 is a cloud's metadata
        "192.0.2.0/24",  # documentation TEST-NET-1 (RFC 5737)
        "192.31.196.0/24",  # AS112 (RFC 7535)
        "192.52.193.0/24",  # AMT (RFC 7450)
        "192.88.99.0/24",  # relays of 6to4 (RFC 7526)
        "192.168.0.0/16",  # private (RFC 1918)
        "192.175.48.0/24",  # direct delegation AS112 (RFC 7534)
        "198.18.0.0/15",  # benchmarking (RFC 2544)
        "198.51.100.0/24",  # documentation TEST-NET-2 (RFC 5737)
        "203.0.113.0/24",  # documentation TEST-NET-3 (RFC 5737)
        "224.0.0.0/4",  # multicast (RFC 5771)
        "240.0.0.0/4",  # reserved (RFC 1112), limited broadcast (RFC 919)
    )
)

_ISATAP: Final = frozenset({0x0000_5EFE, 0x0200_5EFE})
"""The first half of an interface identifier that carries an IPv4 address in its second (RFC 5214 6.1)."""


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Return whether a receiver may have this address.

    An IPv6 address that carries an IPv4 address is public only if both are. Whether it is one of this
    machine's own is not known here.
    """
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _REFUSED_IPV4)
    if address.scope_id is not None or address not in _GLOBAL_UNICAST:
        return False
    if any(address in network for network in _REFUSED_IPV6):
        return False
    carried = _carried(address)
    return carried is None or is_public(carried)


def _carried(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that a tunnel's end would be reached at."""
    number = int(address)
    if number >> 32 & 0xFFFF_FFFF not in _ISATAP:
        return None
    return IPv4Address(number & 0xFFFF_FFFF)
