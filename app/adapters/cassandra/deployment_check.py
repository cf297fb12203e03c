"""Check that key, store and evidence folder are of one deployment, before anything is opened."""

import asyncio
import hmac
import os
import secrets
from pathlib import Path
from typing import Final

from app.adapters.cassandra.keyspace import KEY_CHECK, keep_setting, read_setting
from app.adapters.cassandra.session import Session
from app.adapters.files.data_dir import make_private
from app.adapters.security.crypto import Keys, Purpose, RootKeyRefused
from app.adapters.shared.opening import StoreRefused

MARKER: Final = "store.id"
"""The file in the evidence folder that says whose it is."""

APPEARS_S: Final = 5.0
"""How long the first process of a new store may take to mark the folder, in seconds."""

_STORE_ID: Final = "store_id"


async def check_root_key(session: Session, keys: Keys) -> None:
    """Raise `RootKeyRefused` unless the store is new or was sealed under this key."""
    expected = keys.derive(Purpose.KEY_CHECK)
    if not hmac.compare_digest(await keep_setting(session, KEY_CHECK, expected), expected):
        raise RootKeyRefused("the store was sealed under another root key: give every process the same one")


async def check_folder(session: Session, folder: Path) -> None:
    """Raise `StoreRefused` unless the folder is this store's; a new store marks it as its own."""
    own = secrets.token_hex(16)
    marker = await asyncio.to_thread(_read, folder)
    store_id = await read_setting(session, _STORE_ID)  # after the marker, which is made after it
    if store_id is None and marker is None:
        store_id = await keep_setting(session, _STORE_ID, own.encode())
        if store_id == own.encode():
            await asyncio.to_thread(_mark, folder, own)
            return
    if store_id is None:
        raise StoreRefused(f"{folder} holds the evidence of another store; choose another SERVICE_BLOBS_DIR")
    marker = marker or await _wait_for_marker(folder)
    if marker is None:
        raise StoreRefused(
            f"{folder} is not this store's evidence folder: mount the same evidence folder in every process; "
            f"if it is, restored perhaps, write {store_id.decode()} into {folder / MARKER}"
        )
    if marker != store_id.decode():
        raise StoreRefused(
            f"{folder} holds the evidence of another store: mount the same evidence folder in every process"
        )


async def _wait_for_marker(folder: Path) -> str | None:
    loop = asyncio.get_running_loop()
    until = loop.time() + APPEARS_S
    while loop.time() < until:
        marker = await asyncio.to_thread(_read, folder)
        if marker is not None:
            return marker
        await asyncio.sleep(0.1)
    return None


def _read(folder: Path) -> str | None:
    try:
        return (folder / MARKER).read_text(encoding="ascii").strip() or None
    except FileNotFoundError:
        return None


def _mark(folder: Path, store_id: str) -> None:
    make_private(folder)
    file = os.open(folder / MARKER, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(file, f"{store_id}\n".encode())
        os.fsync(file)
    finally:
        os.close(file)
