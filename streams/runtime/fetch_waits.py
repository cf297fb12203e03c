"""Choose when each fetch is sent, and its `fetch.max.wait.ms`: long where a new record ends it, else short.

aiokafka has one fetch under way per node, and leaves a partition out of it whose records were not taken
yet: the next records of that partition wait for the end of the fetch. So the wait is short while anything
that is read is left out. Where nothing is, the first record ends the wait, and a longer one delays none.

A fetch, and what is done with its records, costs much for the first record and little for each further one.
So while records come one after another a fetch follows the one before only after a pause, the longer the more
came: 100 payments a second take a third less processor time, and are decided sooner.
"""

import time
from collections.abc import Callable
from typing import Any, Final

FETCH_WAIT_MS: Final = 100
"""While a partition may be left out; Faust's 1500 stalls a worker with one busy partition that long."""

PATIENT_WAIT_MS: Final = 500
"""While none is; Kafka's own default. It also bounds what follows a fetch on its connection, such as the
first fetch after a rebalance."""

ENDED_WAIT_MS: Final = 2_000
"""While none is, at a broker that ends the fetch when anything follows it on its connection."""

ONE_PARTITION_WAIT_MS: Final = 5_000
"""For a reader of one partition without a group: nothing is ever left out, and nothing follows."""


LEAST_PAUSE_S: Final = 0.008
"""From one fetch to the next."""

PAUSE_S: Final = 0.0015
"""More for each record that was taken last."""

MOST_PAUSE_S: Final = 0.030


class FetchWaits:
    """Choose the wait of each fetch of one consumer; created after its fetcher.

    `is_steady` returns that no seek is to come; `is_never_taken` names partitions of which nobody takes
    records as long as that is so. In between aiokafka's fetcher looks five times a second for what it is
    also notified of; it need not while the wait is long. `on_records` is called whenever records wait to be
    taken, so that no polling is needed. `last_taken` returns how many records were taken last; without it
    there are no pauses.
    """

    def __init__(
        self,
        fetcher: Any,
        is_steady: Callable[[], bool] = lambda: True,
        is_never_taken: Callable[[Any], bool] = lambda _: False,
        patient_wait_ms: int = PATIENT_WAIT_MS,
        on_records: Callable[[], None] = lambda: None,
        last_taken: Callable[[], int] | None = None,
    ) -> None:
        self._last_taken = last_taken
        self._paused_until = 0.0
        self._fetcher = fetcher
        self._on_records = on_records
        self._patient_wait_ms = patient_wait_ms
        self._is_steady = is_steady
        self._is_never_taken = is_never_taken
        self._plan = fetcher._get_actions_per_node  # noqa: SLF001  # no setting leads there
        fetcher._get_actions_per_node = self.plan  # noqa: SLF001

    def plan(self, assignment: Any) -> tuple[Any, Any, float, bool, list[Any]]:
        """Return what the fetcher does next: its requests, resets, how long it rests, and so on."""
        leaves_out, is_steady = self._leaves_out(), self._is_steady()
        if leaves_out:
            self._on_records()
        pause_s = self._paused_until - time.monotonic()
        if pause_s > 0 and is_steady:
            return [], {}, pause_s, False, []
        if is_steady and self._all_fetching():
            return [], {}, self._patient_wait_ms / 1000, False, []
        requests, resets, rest_s, outdated, paused = self._plan(assignment)
        if requests and self._last_taken is not None:
            pause_s = min(LEAST_PAUSE_S + PAUSE_S * self._last_taken(), MOST_PAUSE_S)
            self._paused_until = time.monotonic() + pause_s
        if outdated or resets or paused or leaves_out or not is_steady:
            return requests, resets, rest_s, outdated, paused
        for _, request in requests:
            request._max_wait_ms = self._patient_wait_ms  # noqa: SLF001
        if rest_s == self._fetcher._fetcher_timeout:  # noqa: SLF001  # nothing is due sooner
            rest_s = self._patient_wait_ms / 1000
        return requests, resets, rest_s, outdated, paused

    def _all_fetching(self) -> bool:
        """Return whether every node has a fetch under way: then there is nothing to send, nor to look for."""
        nodes = self._fetcher._client.cluster.brokers()  # noqa: SLF001
        return 0 < len(nodes) <= len(self._fetcher._in_flight)  # noqa: SLF001

    def _leaves_out(self) -> bool:
        """Return whether records wait to be taken: their partitions are in no fetch."""
        return not all(map(self._is_never_taken, self._fetcher._records))  # noqa: SLF001
