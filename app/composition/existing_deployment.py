"""Refuse commands on a folder without a deployment (R12)."""

import difflib
import os
from pathlib import Path
from typing import Final

from app.adapters.files.data_dir import DATABASE_FILE, ROOT_KEY_FILE
from app.process.startup import CannotStart
from app.settings import PREFIX, Settings

DEFAULT_FOLDER: Final = Path("veristream-data")
"""Default data folder of `veristream up`."""


def require_deployment(settings: Settings) -> None:
    """Return if a start has made the store and the keys that these settings lead to. Blocking; reads only.

    A Cassandra says itself whether `veristream migrate` was run; then only the key is looked for.

    Raises:
        CannotStart: There is none; the message names the likely folder, or how to start one.
    """
    require_store(settings)
    require_key(settings)


def require_store(settings: Settings) -> None:
    """Return if the settings lead to a store that was made. Blocking; reads only.

    Raises:
        CannotStart: The data folder holds none.
    """
    folder = settings.data_dir
    if settings.cassandra_contact_points or (folder / DATABASE_FILE).is_file():
        return
    missing = f"holds no deployment (no {DATABASE_FILE})" if folder.is_dir() else "does not exist"
    raise CannotStart(f"the data folder {folder} {missing}, and this command makes none; {_fix(folder)}")


def require_key(settings: Settings) -> None:
    """Return if there is a key. Blocking; reads only.

    Raises:
        CannotStart: None is configured, and none lies in the data folder.
    """
    if settings.sender_key is None:
        require_root_key(settings)


def require_root_key(settings: Settings) -> None:
    """Return if there is the root key itself. Blocking; reads only.

    Raises:
        CannotStart: None is configured, and none lies in the data folder.
    """
    key_file = settings.data_dir / ROOT_KEY_FILE
    if settings.root_key is None and not key_file.exists():
        raise CannotStart(
            f"there is no root key: {key_file} does not exist, and this command makes none; set "
            f"{PREFIX}ROOT_KEY_FILE to the deployment's key, or name its folder with --data-dir"
        )


def _fix(folder: Path) -> str:
    start = f"to begin one there: veristream up --data-dir {folder}"
    near = _nearest_deployment(folder)
    if near is None:
        return f"name the folder of the service with --data-dir or {PREFIX}DATA_DIR, or, {start}"
    return f"did you mean --data-dir {near}? Or, {start}"


def _nearest_deployment(folder: Path) -> Path | None:
    """Return the folder of a deployment that the caller may have meant; the nearest place or name first."""
    beside = {path.parent.name: path.parent for path in folder.parent.glob(f"*/{DATABASE_FILE}")}
    close = [beside[name] for name in difflib.get_close_matches(folder.name, beside, n=1)]
    configured = os.environ.get(f"{PREFIX}DATA_DIR")
    likely = [folder / DEFAULT_FOLDER, *close, *([Path(configured)] if configured else []), DEFAULT_FOLDER]
    return next((one for one in likely if (one / DATABASE_FILE).is_file()), None)
