"""Users of the embedded broker, stored in two files that only the service's own account may read."""

import base64
import fcntl
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from app.broker.errors import UserNameTaken, UsersUnusable, UserUnknown
from app.broker.scram import SALT_BYTES, Mechanism, ScramKeys, decoy_keys, derive_keys

OWNER: Final = "veristream"
"""The service itself; it may do everything."""

MAX_USERS: Final = 100
"""Readers of one deployment, whose shares of connections and groups must fit beside the service."""

USERS_FILE: Final = "users.json"
PASSWORD_FILE: Final = "password"  # noqa: S105 - the name of a file
"""Beside it, the owner's password for the processes of the service."""

_LOCK_FILE: Final = "lock"
_PASSWORD_BYTES: Final = 32
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,62}")


class _Stored(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class StoredKeys(_Stored):
    """The keys of one mechanism, in base64."""

    salt: str
    iterations: int
    stored_key: str
    server_key: str


class StoredUser(_Stored):
    """A user: keys instead of a password."""

    created_at: datetime
    keys: dict[Mechanism, StoredKeys]


class StoredUsers(_Stored):
    """The contents of the users' file."""

    decoy_secret: str
    """Draws the salts of names nobody has."""
    users: dict[str, StoredUser]


@dataclass(frozen=True, slots=True)
class Access:
    """Rights of a signed-in client."""

    name: str
    topics: frozenset[str] | None = None
    """The topics it may read, and nothing else; None: everything is allowed."""

    @property
    def unlimited(self) -> bool:
        """Whether it may do everything."""
        return self.topics is None

    def may_read(self, topic: str | None) -> bool:
        """Return whether the user may describe and read a topic."""
        return self.topics is None or topic in self.topics

    def may_use(self, group: str) -> bool:
        """Return whether a consumer group is its own: named as the user, or `user.something`."""
        return self.topics is None or group == self.name or group.startswith(f"{self.name}.")


EVERYTHING: Final = Access("")
"""A client of a broker that asks for no sign-in."""


class UserFiles:
    """The two files of a folder; every change is written whole, under a lock that all processes share."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.path = folder / USERS_FILE

    def ensure_owner(self, at: datetime) -> str:
        """Return the owner's password, which is drawn when it is not there. Blocking.

        Raises:
            UsersUnusable: The files are there and cannot be read.
        """
        with self._locked():
            users = self._read() if self.path.exists() else None
            password = self._password()
            if users is None or password is None or not _opens(password, users.users.get(OWNER)):
                password = secrets.token_urlsafe(_PASSWORD_BYTES)
                _write(self._folder / PASSWORD_FILE, password)
                stored = users or StoredUsers(decoy_secret=secrets.token_hex(_PASSWORD_BYTES), users={})
                self._write(stored, {**stored.users, OWNER: _user(password, at)})
            return password

    def owner_password(self) -> str:
        """Return the owner's password; raises `UsersUnusable` when it is not there."""
        password = self._password()
        if password is None:
            raise UsersUnusable(f"{self._folder / PASSWORD_FILE} is not there; it is made at the first start")
        return password

    def create(self, name: str, at: datetime) -> str:
        """Add a user and return its generated password, which is stored nowhere. Blocking.

        Raises:
            UserNameTaken: There is one of this name.
            UsersUnusable: The files are not there, or the name cannot be one.
        """
        if _NAME.fullmatch(name) is None or name.startswith(OWNER):
            raise UsersUnusable(
                f"a user's name is 1 to 63 of a-z, 0-9 and -, beginning with a letter and not with {OWNER}"
            )
        with self._locked():
            users = self._read()
            if name in users.users:
                raise UserNameTaken(
                    f"there is a user {name} already; delete it first, or choose another name"
                )
            if len(users.users) >= MAX_USERS:
                raise UsersUnusable(f"there are {MAX_USERS} users already")
            password = secrets.token_urlsafe(_PASSWORD_BYTES)
            self._write(users, {**users.users, name: _user(password, at)})
            return password

    def delete(self, name: str) -> None:
        """Remove a user; its connections are closed. Raises `UserUnknown`, also for the owner."""
        with self._locked():
            users = self._read()
            if name == OWNER or name not in users.users:
                raise UserUnknown(f"there is no user {name}; see: veristream broker-user list")
            self._write(users, {other: user for other, user in users.users.items() if other != name})

    def readers(self) -> dict[str, datetime]:
        """Return every user but the owner, with when it was made."""
        users = self._read().users
        return {name: user.created_at for name, user in sorted(users.items()) if name != OWNER}

    def _password(self) -> str | None:
        try:
            return (self._folder / PASSWORD_FILE).read_text(encoding="ascii").strip() or None
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise UsersUnusable(f"{self._folder / PASSWORD_FILE} cannot be read: {error}") from error

    def _read(self) -> StoredUsers:
        return read_users(self.path)

    def _write(self, stored: StoredUsers, users: Mapping[str, StoredUser]) -> None:
        changed = stored.model_copy(update={"users": dict(users)})
        _write(self.path, changed.model_dump_json(indent=1))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folder.chmod(0o700)
            lock = os.open(self._folder / _LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UsersUnusable(f"{self._folder} cannot be used: {error}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


class Users:
    """The users a running broker knows; the file is read again when it has changed."""

    def __init__(self, path: Path, readable: frozenset[str]) -> None:
        self._path = path
        self._readable = readable
        self._seen: tuple[int, int, int] | None = None
        self._users = StoredUsers(decoy_secret="", users={})
        self.refresh()

    def refresh(self) -> bool:
        """Read the file if it changed; return whether it did. Raises `UsersUnusable`."""
        try:
            found = self._path.stat()
        except OSError as error:
            raise UsersUnusable(f"{self._path} cannot be read: {error}") from error
        seen = (found.st_ino, found.st_mtime_ns, found.st_size)
        if seen == self._seen:
            return False
        self._users = read_users(self._path)
        self._seen = seen
        return True

    def keys(self, name: str, mechanism: Mechanism) -> ScramKeys:
        """Return the user's keys, or for an unknown name keys that nothing proves."""
        user = self._users.users.get(name)
        if user is None or mechanism not in user.keys:
            return decoy_keys(bytes.fromhex(self._users.decoy_secret), name, mechanism)
        return _decoded(user.keys[mechanism])

    def access(self, name: str) -> Access:
        """Return what a signed-in user may do."""
        return Access(name, None if name == OWNER else self._readable)

    def made_at(self, name: str) -> datetime | None:
        """Return when the user was made; None when there is none, or no more."""
        user = self._users.users.get(name)
        return None if user is None else user.created_at


def read_users(path: Path) -> StoredUsers:
    """Read the file of users; raises `UsersUnusable`."""
    try:
        return StoredUsers.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise UsersUnusable(f"{path} is not a file of broker users") from error
    except OSError as error:
        raise UsersUnusable(f"{path} cannot be read: {error}") from error


def _decoded(keys: StoredKeys) -> ScramKeys:
    decode = base64.b64decode
    return ScramKeys(decode(keys.salt), keys.iterations, decode(keys.stored_key), decode(keys.server_key))


def _opens(password: str, user: StoredUser | None) -> bool:
    if user is None:
        return False
    mechanism = Mechanism.SCRAM_SHA_256
    stored = _decoded(user.keys[mechanism])
    return derive_keys(password, mechanism, stored.salt, stored.iterations) == stored


def _user(password: str, at: datetime) -> StoredUser:
    return StoredUser(created_at=at, keys={mechanism: _keys(password, mechanism) for mechanism in Mechanism})


def _keys(password: str, mechanism: Mechanism) -> StoredKeys:
    keys = derive_keys(password, mechanism, secrets.token_bytes(SALT_BYTES))
    encoded = [base64.b64encode(part).decode() for part in (keys.salt, keys.stored_key, keys.server_key)]
    return StoredKeys(
        salt=encoded[0], iterations=keys.iterations, stored_key=encoded[1], server_key=encoded[2]
    )


def _write(path: Path, text: str) -> None:
    """Replace a file at once with one only its owner reads."""
    draft = path.with_suffix(".draft")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
