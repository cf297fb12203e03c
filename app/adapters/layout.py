"""Where things lie in the data folder."""

from typing import Final

DATABASE_FILE: Final = "veristream.sqlite3"
"""Records, audit log, events, evidence metadata and wrapped keys."""

BLOBS_FOLDER: Final = "blobs"
"""Sealed evidence, one file each."""

ROOT_KEY_FILE: Final = "root.key"
"""The root key when none is configured; readable by its owner alone."""

CHECKPOINTS_FOLDER: Final = "audit-checkpoints"
"""Signed checkpoints of the audit log, one file each month."""

SEALED_UNDER_ROOT_KEY: Final = (DATABASE_FILE, BLOBS_FOLDER)
"""What is lost without the root key; a folder that holds any of it is never given a new key."""
