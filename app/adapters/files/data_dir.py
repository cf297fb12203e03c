"""Where things lie in the data folder."""

from typing import Final

DATABASE_FILE: Final = "veristream.sqlite3"
"""Records, audit log, events, evidence metadata and wrapped keys."""

BLOBS_FOLDER: Final = "blobs"
"""Sealed evidence, one file each."""

BROKER_ADDRESS_FILE: Final = "address"
"""In the folder of the embedded broker: where clients on this machine find it."""

ROOT_KEY_FILE: Final = "root.key"
"""The root key when none is configured; readable by its owner alone."""

CHECKPOINTS_FOLDER: Final = "audit-checkpoints"
"""Signed checkpoints of the audit log, one file each month."""

SEALED_UNDER_ROOT_KEY: Final = (DATABASE_FILE, BLOBS_FOLDER)
"""What is lost without the root key; a folder that holds any of it is never given a new key."""

RESTORED_FILE: Final = "restored.json"
"""Marks a folder that a backup was restored into, until `veristream activate`."""

USERS_FOLDER: Final = "broker-users"
"""Who may sign in to the embedded broker."""

BROKER_FOLDER: Final = "broker"
"""The embedded broker's log."""

STREAMS_FOLDER: Final = "streams"
"""What the stream library keeps between two starts."""

OURS: Final = (
    DATABASE_FILE,
    f"{DATABASE_FILE}-wal",
    f"{DATABASE_FILE}-shm",
    BLOBS_FOLDER,
    BROKER_FOLDER,
    CHECKPOINTS_FOLDER,
    STREAMS_FOLDER,
)
"""All that is made here, but for the root key, which is refused when it is open to others."""
