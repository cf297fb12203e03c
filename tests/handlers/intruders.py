"""What somebody with access to the database itself would do to ACME's audit log, over each adapter.

Places are positions in the chain; the row sealed at a place is addressed by it, whatever it was made into.
"""

from typing import Any, Protocol

from app.adapters.cassandra.audit_rows import COLUMNS, DAY_MS
from app.adapters.cassandra.session import Session, Statement
from schemas.ids import TenantId
from tests.builders import ACME
from tests.contracts.adapters import SqliteBreaker

HeadColumns = dict[str, Any]
"""position, prev_hash, hash, seal."""


class Intruder(Protocol):
    """Tampers with rows, links and the head; leaves all else as it is."""

    async def edit_row(self, place: int, column: str, value: object) -> None:
        """Change a column of a row; its link goes on naming it."""
        ...

    async def remove_row(self, place: int) -> None:
        """Take a row away; its link stays."""
        ...

    async def swap_rows(self, one: int, other: int) -> None:
        """Let the link of each row name the other."""
        ...

    async def edit_link(self, place: int, column: str, value: object) -> None:
        """Change a column of a link."""
        ...

    async def move_link(self, place: int, to: int, *, tenant_id: TenantId = ACME) -> None:
        """Take a link, of ACME unless said, and its row to another place of ACME's chain."""
        ...

    async def remove_link(self, place: int) -> None:
        """Take a link away."""
        ...

    async def forge_row(self, event_id: str) -> None:
        """Add a row that nobody committed, with the words of the first."""
        ...

    async def forge_link(self, place: int, event_id: str, prev_hash: str, own: str) -> None:
        """Add a link to the forged row."""
        ...

    async def links(self) -> dict[int, tuple[str, str]]:
        """Return (previous hash, hash) of the links by their places."""
        ...

    async def head(self) -> HeadColumns:
        """Return the head."""
        ...

    async def set_head(self, **columns: object) -> None:
        """Change columns of the head."""
        ...

    async def remove_head(self) -> None:
        """Take the head away."""
        ...


class SqliteIntruder:
    """Opens the database file; rows were written in the order they were sealed in."""

    def __init__(self, breaker: SqliteBreaker) -> None:
        self._run = breaker.run

    async def edit_row(self, place: int, column: str, value: object) -> None:
        """Change a column of a row."""
        self._run(f"UPDATE audit SET {column} = ? WHERE seq = ?", value, place)  # noqa: S608 - names of the test

    async def remove_row(self, place: int) -> None:
        """Take a row away."""
        self._run("DELETE FROM audit WHERE seq = ?", place)

    async def swap_rows(self, one: int, other: int) -> None:
        """Let the link of each row name the other."""
        for old, new in ((one, -1), (other, one), (-1, other)):
            self._run("UPDATE audit SET seq = ? WHERE seq = ?", new, old)

    async def edit_link(self, place: int, column: str, value: object) -> None:
        """Change a column of a link."""
        self._run(f"UPDATE audit_chain SET {column} = ? WHERE position = ?", value, place)  # noqa: S608 - names of the test

    async def move_link(self, place: int, to: int, *, tenant_id: TenantId = ACME) -> None:
        """Take a link and its row to another place."""
        owner = "(SELECT seq FROM audit_chain WHERE tenant = ? AND position = ?)"
        self._run(f"UPDATE audit SET tenant = ? WHERE seq = {owner}", ACME, tenant_id, place)  # noqa: S608 - constants
        self._run(
            "UPDATE audit_chain SET tenant = ?, position = ? WHERE tenant = ? AND position = ?",
            ACME, to, tenant_id, place,
        )  # fmt: skip

    async def remove_link(self, place: int) -> None:
        """Take a link away."""
        self._run("DELETE FROM audit_chain WHERE position = ?", place)

    async def forge_row(self, event_id: str) -> None:
        """Add a row that nobody committed."""
        self._run(
            "INSERT INTO audit (seq, tenant, event_id, action, actor_type, subject_id, context, detail, "
            "created_at, livemode) SELECT 99, tenant, ?, action, actor_type, subject_id, context, detail, "
            "created_at, livemode FROM audit WHERE seq = 1",
            event_id,
        )

    async def forge_link(self, place: int, event_id: str, prev_hash: str, own: str) -> None:
        """Add a link to the forged row."""
        self._run(
            "INSERT INTO audit_chain SELECT seq, tenant, ?, ?, ? FROM audit WHERE event_id = ?",
            place, prev_hash, own, event_id,
        )  # fmt: skip

    async def links(self) -> dict[int, tuple[str, str]]:
        """Return (previous hash, hash) by place."""
        rows: list[Any] = self._run("SELECT position, prev_hash, hash FROM audit_chain")
        return {position: (prev_hash, own) for position, prev_hash, own in rows}

    async def head(self) -> HeadColumns:
        """Return the head."""
        row = self._run("SELECT position, prev_hash, hash, seal FROM audit_heads")[0]
        return dict(zip(("position", "prev_hash", "hash", "seal"), row, strict=True))

    async def set_head(self, **columns: object) -> None:
        """Change columns of the head."""
        for name, value in columns.items():
            self._run(f"UPDATE audit_heads SET {name} = ?", value)  # noqa: S608 - names of the test

    async def remove_head(self) -> None:
        """Take the head away."""
        self._run("DELETE FROM audit_heads")


_LINK = "event_id, created_at, livemode, prev_hash, hash"
_KEYS = ("created_at", "event_id", "livemode")
_OWN = "tenant = ? AND livemode = ? AND day = ? AND created_at = ? AND event_id = ?"


class CassandraIntruder:
    """Speaks CQL; a row whose key is changed is written anew, and its link made to name it."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def run(self, cql: str, *values: object) -> list[tuple[Any, ...]]:
        """Run a statement."""
        return [tuple(row) for row in await self._session.execute(Statement(cql), values)]

    async def edit_row(self, place: int, column: str, value: object) -> None:
        """Change a column of a row."""
        row = await self._row(place)
        if column in _KEYS:
            await self.remove_row(place)
            row[column] = value
            await self._add(row)
            await self.edit_link(place, column, value)
        else:
            await self.run(f"UPDATE audit SET {column} = ? WHERE {_OWN}", value, *_key(row))  # noqa: S608 - names of the test

    async def remove_row(self, place: int) -> None:
        """Take a row away."""
        await self.run(f"DELETE FROM audit WHERE {_OWN}", *_key(await self._row(place)))  # noqa: S608 - constants

    async def swap_rows(self, one: int, other: int) -> None:
        """Let the link of each row name the other."""
        rows = {one: await self._row(other), other: await self._row(one)}
        for place, row in rows.items():
            for column in _KEYS:
                await self.edit_link(place, column, row[column])

    async def edit_link(self, place: int, column: str, value: object) -> None:
        """Change a column of a link."""
        await self.run(
            f"UPDATE audit_chain SET {column} = ? WHERE tenant = ? AND bucket = 0 AND position = ?",  # noqa: S608 - names of the test
            value, ACME, place,
        )  # fmt: skip

    async def move_link(self, place: int, to: int, *, tenant_id: TenantId = ACME) -> None:
        """Take a link and its row to another place."""
        link = (await self._link(place, tenant_id))[0]
        if tenant_id != ACME:
            await self._add(await self._row(place, tenant_id))
        await self.run(
            f"INSERT INTO audit_chain (tenant, bucket, position, {_LINK}) VALUES (?, 0, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - constants
            ACME, to, *link,
        )  # fmt: skip
        if tenant_id == ACME:
            await self.remove_link(place)

    async def remove_link(self, place: int) -> None:
        """Take a link away."""
        await self.run(
            "DELETE FROM audit_chain WHERE tenant = ? AND bucket = 0 AND position = ?", ACME, place
        )

    async def forge_row(self, event_id: str, position: int | None = None) -> None:
        """Add a row that nobody committed; it may claim a place in the chain."""
        await self._add({**await self._row(1), "event_id": event_id, "position": position})

    async def forge_link(self, place: int, event_id: str, prev_hash: str, own: str) -> None:
        """Add a link to the forged row."""
        row = await self._row(1)
        key = (event_id, row["created_at"], row["livemode"])
        await self.run(
            f"INSERT INTO audit_chain (tenant, bucket, position, {_LINK}) VALUES (?, 0, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - constants
            ACME, place, *key, prev_hash, own,
        )  # fmt: skip

    async def links(self) -> dict[int, tuple[str, str]]:
        """Return (previous hash, hash) by place."""
        rows = await self.run(
            "SELECT position, prev_hash, hash FROM audit_chain WHERE tenant = ? AND bucket = 0", ACME
        )
        return {position: (prev_hash, own) for position, prev_hash, own in rows}

    async def head(self) -> HeadColumns:
        """Return the head."""
        names = ("position", "prev_hash", "hash", "seal")
        rows = await self.run(f"SELECT {', '.join(names)} FROM audit_heads WHERE tenant = ?", ACME)  # noqa: S608 - constants
        return dict(zip(names, rows[0], strict=True))

    async def set_head(self, **columns: object) -> None:
        """Change columns of the head."""
        for name, value in columns.items():
            await self.run(f"UPDATE audit_heads SET {name} = ? WHERE tenant = ? IF EXISTS", value, ACME)  # noqa: S608 - names of the test

    async def remove_head(self) -> None:
        """Take the head away."""
        await self.run("DELETE FROM audit_heads WHERE tenant = ? IF EXISTS", ACME)

    async def _link(self, place: int, tenant_id: TenantId = ACME) -> list[tuple[Any, ...]]:
        where = "tenant = ? AND bucket = 0 AND position = ?"
        return await self.run(f"SELECT {_LINK} FROM audit_chain WHERE {where}", tenant_id, place)  # noqa: S608 - constants

    async def _row(self, place: int, tenant_id: TenantId = ACME) -> dict[str, Any]:
        """Return the row that the link names."""
        event_id, created_at, livemode, *_ = (await self._link(place, tenant_id))[0]
        key = {"created_at": created_at, "event_id": event_id, "livemode": livemode}
        found = await self.run(
            f"SELECT {COLUMNS} FROM audit WHERE {_OWN}",  # noqa: S608 - constants
            *_key({**key, "tenant": tenant_id}),
        )
        return dict(zip(COLUMNS.split(", "), found[0], strict=True))

    async def _add(self, row: dict[str, Any]) -> None:
        marks = ", ".join("?" * (len(row) + 2))
        names = f"tenant, day, {', '.join(row)}"
        await self.run("INSERT INTO audit_days (tenant, livemode, day) VALUES (?, ?, ?)", *_key(row)[:3])
        await self.run(
            f"INSERT INTO audit ({names}) VALUES ({marks})",  # noqa: S608 - names of columns
            ACME, row["created_at"] // DAY_MS, *row.values(),
        )  # fmt: skip


def _key(row: dict[str, Any]) -> tuple[object, ...]:
    """Return the key of a row, of ACME unless it says otherwise."""
    day = row["created_at"] // DAY_MS
    return row.get("tenant", ACME), row["livemode"], day, row["created_at"], row["event_id"]
