"""Frames of the embedded broker, from their bytes to the request a handler would be given."""

from app.broker.apis.table import build_table
from app.broker.connection import SMALLEST_FRAME
from app.broker.wire import UNREADABLE, codec, read_head
from tests.broker.builders import one
from tests.broker.frames import every_frame, written
from tests.broker.requests import fetch_request, produce_request

TABLE = build_table()
"""What is served."""

SEEDS = (*every_frame(), written(produce_request("t", one(b"v"))), written(fetch_request("t", 0)))


def target(data: bytes) -> None:
    """Read one frame as a connection does."""
    if len(data) < SMALLEST_FRAME:
        return
    head = read_head(data)
    if TABLE.find(head.api_key, head.version) is None:
        return
    try:
        codec(head.api_key, head.version).read(data)
    except UNREADABLE:
        return
