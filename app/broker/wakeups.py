"""Who must look again: parked requests whose partitions have grown, each once however often that happened."""

from collections.abc import Callable


class Wakeups:
    """Collects wake-ups while requests are handled, to be run after their answers are on the way.

    Running them at once would hold up the answer that caused them; leaving them to the event loop would cost
    another turn of it per message. Code that appends to a log runs `drain` when done.
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[Callable[[], None], None] = {}

    def add(self, look: Callable[[], None]) -> None:
        """Have `look` called by the next `drain`."""
        self._waiting[look] = None

    def drain(self) -> None:
        """Call everything added so far."""
        while self._waiting:
            waiting, self._waiting = self._waiting, {}
            for look in waiting:
                look()
