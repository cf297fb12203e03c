"""Reads every served request with each of its bytes turned into a huge length, in a process of its own."""

import resource

from app.broker.wire import UNREADABLE, codec
from tests.broker.frames import every_frame

HUGE = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\x7f\xff", b"\x7f\xff\xff\xf0", b"\x80\0\0\0")
"""Lengths of about 2^31 as the protocol writes them, and the most negative one."""

MEMORY_BYTES = 3 << 30
"""What the process may map; a reader that believes such a length needs more and is ended."""


def main() -> None:
    """Print how many frames were read."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    frames = 0
    for frame in every_frame():
        reader = codec(frame[1], frame[3])
        for position in range(8, len(frame)):
            for huge in HUGE:
                frames += 1
                for changed in (
                    frame[:position] + huge + frame[position + len(huge) :],
                    frame[:position] + huge + frame[position + 1 :],
                ):
                    try:
                        reader.read(changed)
                    except UNREADABLE:
                        continue
    print(frames)  # noqa: T201 - the answer to the test


if __name__ == "__main__":
    main()
