"""Requests of the embedded broker, from the bytes of a frame to what a handler would be given."""

from app.broker.apis.table import build_table
from app.broker.wire import UNREADABLE, codec, read_head

TABLE = build_table()
"""What is served."""

SEEDS = tuple(
    key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\1\xff\xff" + bytes(16)
    for key, version in TABLE.by_version
)


def target(data: bytes) -> None:
    """Read one frame as a connection does."""
    if len(data) < 10:
        return
    head = read_head(data)
    if TABLE.find(head.api_key, head.version) is not None:
        try:
            codec(head.api_key, head.version).read(data)
        except UNREADABLE:
            return
