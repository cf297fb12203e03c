"""Send the results of attempts to endpoints' actors, without repeating unchanged results."""

from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from schemas.ids import EndpointId
from schemas.webhooks import NoteAttempt
from streams.webhooks.fanout import Write, command_record

SAID_AGAIN_AFTER: Final = timedelta(seconds=30)
"""Shortest interval between equal notes on an endpoint; half the actor's own interval (`SUCCESS_EVERY`)."""

REMEMBERED: Final = 10_000
"""Endpoints whose last note is remembered."""


@dataclass(frozen=True, slots=True)
class _Said:
    at: datetime
    succeeded: bool


class NoteAttempts:
    """Write notes to Kafka, keyed by endpoint; not thread-safe."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._said: OrderedDict[EndpointId, _Said] = OrderedDict()

    async def __call__(self, note: NoteAttempt) -> None:
        """Send the result of an attempt, unless an equal one was sent within `SAID_AGAIN_AFTER`.

        Raises:
            StoreUnavailable: Kafka is away; nothing was sent.
        """
        said = self._said.get(note.endpoint_id)
        same = said is not None and said.succeeded == note.succeeded
        if said is not None and same and not note.gone and abs(note.at - said.at) < SAID_AGAIN_AFTER:
            return
        await self._write(command_record(note.endpoint_id, note.to_bytes()))
        self._said[note.endpoint_id] = _Said(note.at, note.succeeded)
        self._said.move_to_end(note.endpoint_id)
        while len(self._said) > REMEMBERED:
            self._said.popitem(last=False)
