"""Mark a restored folder, so that nothing in it starts before `veristream activate`.

A copy has the same webhook secrets, sessions, consumer groups and audit chain as the service it was taken of.
A role that starts is refused while the mark is there; commands that look are not, nor is the broker alone,
which sends nothing: `veristream doctor --invariants` reads its log.
"""

import os
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from app.adapters.files.data_dir import RESTORED_FILE
from app.adapters.security.crypto import sync_folder
from app.process.startup import CannotStart
from schemas.base import Frozen, Timestamp, rfc3339

FORK_WARNING: Final = (
    "end the service that the backup was taken of, if it still runs: two that are active send every webhook "
    "twice, and each goes on with the audit chain in its own way, which no later check can join again"
)


DRAFT_FILE: Final = f"{RESTORED_FILE}.draft"
"""All that a restore leaves that was cut off at its very beginning."""


class Mark(Frozen):
    """The marker of a restored folder."""

    backup_id: str
    taken_at: Timestamp
    complete: bool
    """False while it is being restored, and after a restore that was cut off."""


def read_mark(data_dir: Path) -> Mark | None:
    """Return the mark of a folder, None where there is none.

    Raises:
        CannotStart: It cannot be read.
    """
    path = data_dir / RESTORED_FILE
    try:
        return Mark.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValidationError) as error:
        raise CannotStart(f"{path} cannot be read; restore the backup again into an empty folder") from error


def write_mark(data_dir: Path, mark: Mark) -> None:
    """Write the mark, whole or not at all."""
    path = data_dir / RESTORED_FILE
    draft = path.with_name(DRAFT_FILE)
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(mark.model_dump_json() + "\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    sync_folder(data_dir)


def remove_mark(data_dir: Path) -> None:
    """Remove the marker, so that roles may start."""
    (data_dir / RESTORED_FILE).unlink(missing_ok=True)
    sync_folder(data_dir)


def refuse_marked(data_dir: Path) -> None:
    """Return if the folder may act. Blocking.

    Raises:
        CannotStart: A backup was restored into it and it was not activated, or not wholly restored.
    """
    mark = read_mark(data_dir)
    if mark is None:
        return
    require_complete(data_dir, mark)
    raise CannotStart(
        f"{data_dir} holds a restored backup of {rfc3339(mark.taken_at)} that is not active: it consumes "
        f"and sends nothing. To let it take over: veristream activate --data-dir {data_dir}; before that, "
        + FORK_WARNING
    )


def require_complete(data_dir: Path, mark: Mark) -> None:
    """Return if the restore is complete.

    Raises:
        CannotStart: It did not.
    """
    if not mark.complete:
        raise CannotStart(
            f"the restore of backup {mark.backup_id} into {data_dir} was cut off; run the same "
            "veristream restore again, which goes on with it"
        )
