"""Memory of the service after full verifications, and its time to ready: `python -m tests.bench.memory`.

Memory is the proportional set size (PSS) of the process and all its children, so that a page they share
counts once. The time to ready is printed beside that of a Python which only imports onnxruntime and OpenCV.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from app.demo.specimens import to_jpeg
from tests.bench.reading import AT_ONCE, pages, served
from tests.journeys.service import encoded, hopper, running_service

MIB = 2**20


def pss_mib(pid: int) -> float:
    """Return the PSS of a process and its descendants, MiB."""
    parent: Any = psutil.Process(pid)  # type: ignore[no-untyped-call]  # psutil ships no types for it
    return float(sum(one.memory_full_info().pss for one in (parent, *parent.children(recursive=True))) / MIB)


def bare_start_s() -> float:
    """Return the seconds a Python takes to import the engines' libraries."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "import onnxruntime, cv2"], check=True)
    return time.monotonic() - began


async def measure(count: int) -> None:
    """Start the service, post verifications, and print its memory before and after."""
    bare_start_s()
    bare_s, made, selfie = bare_start_s(), pages(AT_ONCE), encoded(to_jpeg(hopper().selfie))
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        async with running_service(Path(folder)) as service:
            ready_s, pid = time.monotonic() - began, service.role.process.pid
            sys.stdout.write(f"ready after {ready_s:.1f} s, bare imports {bare_s:.1f} s\n")
            sys.stdout.write(f"memory when ready {pss_mib(pid):.0f} MiB\n")
            for done in range(0, count, len(made)):
                await served(service, made, selfie)
                if (done + len(made)) % 20 == 0:
                    sys.stdout.write(f"after {done + len(made):4} verifications {pss_mib(pid):.0f} MiB\n")
                    sys.stdout.flush()


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=100, help="full verifications")
    chosen: Any = parser.parse_args()
    asyncio.run(measure(chosen.count))


if __name__ == "__main__":
    main()
