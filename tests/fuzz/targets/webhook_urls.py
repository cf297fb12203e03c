"""URLs of webhooks and the addresses behind them: what is accepted must mean the same to every reader."""

from ipaddress import ip_address
from urllib.parse import urlsplit

from yarl import URL

from schemas.problems import Refused
from streams.webhooks.addresses import is_public
from streams.webhooks.urls import USUAL_PORTS, receiver_url

SEEDS = (
    b"\0https://hooks.acme.example/in?x=1",
    b"\0https://hooks.acme.example:8443/",
    b"\1http://127.0.0.1:8000/in",
    b"\0https://[2606:4700::1111]/%2e%2e/a",
    "\0https://bücher.example。/x".encode(),
    b"\0https://0x7f.1/",
    b"\0https://user:word@hooks.acme.example\\@10.0.0.1/",
    b"\0https://hooks.acme.example/#x",
    b"\2\x7f\0\0\1",
    b"\2" + bytes(10) + b"\xff\xff\x7f\0\0\1",
    b"\2\0\x64\xff\x9b" + bytes(8) + b"\x0a\0\0\1",
    b"\2 \2\x7f\0\0\1" + bytes(10),
)


class Wrong(AssertionError):
    """Something was accepted that must not be, or that is read in two ways."""


def target(data: bytes) -> None:
    """Judge one URL or one address."""
    if data[:1] == b"\2":
        _judge_address(data[1:])
    else:
        _judge_url(data[1:].decode(errors="replace"), insecure=data[:1] == b"\1")


def _judge_address(raw: bytes) -> None:
    if len(raw) not in {4, 16}:
        return
    address = ip_address(raw)
    if is_public(address) and not address.is_global:
        raise Wrong(str(address))


def _judge_url(text: str, *, insecure: bool) -> None:
    try:
        url = receiver_url(text, insecure=insecure)
    except Refused:
        return
    if receiver_url(url, insecure=insecure) != url:
        raise Wrong(f"not its own normal form: {url}")
    split, read = urlsplit(url), URL(url)
    if split.hostname != read.raw_host or split.port not in {read.explicit_port, None}:
        raise Wrong(f"read in two ways: {url}")
    if not insecure and (read.scheme != "https" or read.port not in USUAL_PORTS):
        raise Wrong(url)
    if read.user or read.password or read.fragment:
        raise Wrong(url)
