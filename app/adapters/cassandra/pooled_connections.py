"""Send a statement on a pooled connection of the driver, past the driver's `ResponseFuture`.

A `ResponseFuture` is made for threads to wait on and tries by itself again: with its event, locks, timer and
plan it takes as much processor time as the request. Here one try is sent, and what comes of it handed over.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, cast

from cassandra.protocol import RESULT_KIND_ROWS

from app.adapters.cassandra.binding import LoggedBatch
from app.adapters.cassandra.driver import (
    FETCH_SIZE_UNSET,
    LIGHTWEIGHT,
    NOT_TAKEN,
    PLAIN,
    SERIAL,
    BatchMessage,
    ExecuteMessage,
)


@dataclass(slots=True)
class Page:
    """An answer, or a part of it."""

    rows: list[Any]
    next_page: bytes | None


Answered: TypeAlias = Callable[[Page | BaseException], object]
"""Takes what came of a request."""


class PooledConnections:
    """The connections of a session of the driver, one to each node of the data centre."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self._profiles = {name: driver.get_execution_profile(name) for name in (PLAIN, LIGHTWEIGHT, SERIAL)}

    def send(self, query: Any, profile_name: str, after: bytes | None, answered: Answered) -> bool:
        """Send a bound statement or a batch to the node that the policy names first; False: not sent.

        `after` is the paging state. `answered` is called once, on the thread that serves the connection or
        the one that closes it.
        """
        profile = self._profiles[profile_name]
        pool = self._pool(query, profile)
        if pool is None:
            return False
        try:
            connection, stream = pool.borrow_connection(timeout=0.0)
        except NOT_TAKEN:
            return False
        message, columns = self._message(query, profile, after)
        handler = self._driver.client_protocol_handler
        try:
            connection.send_msg(
                message,
                stream,
                cb=partial(_on_message, pool, connection, profile.row_factory, answered),
                encoder=handler.encode_message,
                decoder=handler.decode_message,
                result_metadata=columns,
            )
        except NOT_TAKEN:
            with connection.lock:
                connection.request_ids.append(stream)
            pool.return_connection(connection)
            return False
        return True

    def _pool(self, query: Any, profile: Any) -> Any:
        pools = tuple(self._driver.get_pools())  # at once: a thread of the driver's may change them
        if len(pools) == 1:
            return pools[0]
        plan = profile.load_balancing_policy.make_query_plan(self._driver.keyspace, query)
        first = next(iter(plan), None)
        return next((pool for pool in pools if pool.host == first), None)

    def _message(self, query: Any, profile: Any, after: bytes | None) -> tuple[Any, Any]:
        """Return the message and the columns of its answer, as the driver would make them."""
        written_at = self._driver.cluster.timestamp_generator()
        level, serial = query.consistency_level, profile.serial_consistency_level
        level = profile.consistency_level if level is None else level
        if isinstance(query, LoggedBatch):
            of_batch = query.batch_type, query.statements, level, serial, written_at, query.keyspace
            return BatchMessage(*of_batch), []
        prepared, size = query.prepared_statement, query.fetch_size
        columns = prepared.result_metadata
        message = ExecuteMessage(
            prepared.query_id,
            query.values,
            level,
            serial,
            self._driver.default_fetch_size if size is FETCH_SIZE_UNSET else size,
            after,
            written_at,
            skip_meta=bool(columns),
            result_metadata_id=prepared.result_metadata_id,
        )
        return message, columns


def _on_message(pool: Any, connection: Any, form: Any, answered: Answered, message: Any) -> None:
    pool.return_connection(connection)
    answered(_outcome(message, form))


def _outcome(message: Any, form: Any) -> Page | BaseException:
    """Return the rows in their form, or the error as the driver would raise it."""
    if isinstance(message, BaseException):
        return cast("BaseException", getattr(message, "to_exception", lambda: message)())
    if message.kind == RESULT_KIND_ROWS:
        return Page(form(message.column_names, message.parsed_rows), message.paging_state)
    return Page([], None)
