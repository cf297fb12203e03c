"""Entry point of the forker, `python -m app.vision.fork_server FD`: load the models, fork on request.

It sees no untrusted pixels and runs no other thread. It ends when its control socket closes, and its
children with it.
"""

import gc
import json
import os
import signal
import socket
import struct
import sys
import traceback
from io import BytesIO
from typing import Final

import cv2
import numpy as np
from PIL import Image

from app.vision import images, measures, sandbox
from app.vision.containers.base import ImageFormat
from app.vision.forker import READY, Greeting
from app.vision.serving import IDLE_S, Loaded, serve
from schemas.problems import EngineFailed, VeristreamError

_MESSAGE_BYTES: Final = 64 * 1024
_FDS_END: Final = 1024
"""Descriptors a child closes: whatever a library holds open."""


def main(descriptor: int) -> None:
    """Load, greet, and serve the control socket until it closes."""
    for ignored in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)  # a group's signal; the service drains and closes the socket
    control = socket.socket(fileno=descriptor)
    control.setblocking(True)
    chosen = control.recv(_MESSAGE_BYTES)
    greeting, engines = _load(chosen)
    control.send(greeting.model_dump_json().encode())
    if greeting.refused or greeting.failed:
        return
    gc.collect()
    gc.freeze()  # collecting in a child would copy every page that holds an object
    sandbox.give_back_memory()  # what loading and warming needed
    while _obey(control, engines):
        pass


def _load(chosen: bytes) -> tuple[Greeting, Loaded]:
    cv2.setNumThreads(1)
    Image.init()
    _rehearse()
    if chosen == b"null":
        return Greeting(), Loaded()
    from app.vision.engines import EngineChoice  # noqa: PLC0415 - only a forker with models imports their libraries
    from app.vision.loading import load  # noqa: PLC0415 - as above

    try:
        engines, facts = load(EngineChoice.model_validate_json(chosen))
    except EngineFailed as error:
        return Greeting(failed=str(error)), Loaded()
    except VeristreamError as error:
        return Greeting(refused=str(error)), Loaded()
    return Greeting(facts=facts), engines


def _rehearse() -> None:
    """Use every decoder once: what they load at first use cannot be loaded by a confined child."""
    pixels = np.full((200, 200, 4), 128, np.uint8)
    for kind in ImageFormat:
        written = BytesIO()
        Image.fromarray(pixels).convert("RGB" if kind is ImageFormat.JPEG else "RGBA").save(
            written, kind.value
        )
        seen = images.decode(images.strip_metadata(written.getvalue()))
        measures.measure_sharpness(seen, (0.0, 0.0, 90.0, 90.0))
        images.encode_box(seen, (0.0, 0.0, 90.0, 90.0))


def _obey(control: socket.socket, engines: Loaded) -> bool:
    """Carry out one command; False when there will be no more."""
    packet, fds, _, _ = socket.recv_fds(control, _MESSAGE_BYTES, 1)
    if not packet:
        return False
    command = json.loads(packet)
    if "fork" in command:
        me = os.getpid()
        pid = os.fork()
        if pid == 0:
            _live(fds[0], me, engines)
        os.close(fds[0])
        control.send(json.dumps({"pid": pid}).encode())
        return True
    os.kill(command["end"], signal.SIGKILL)  # unreaped, so the number is still its own
    _, status, usage = os.wait4(command["end"], 0)
    control.send(json.dumps({"status": status, "cpu_s": usage.ru_utime + usage.ru_stime}).encode())
    return True


def _live(descriptor: int, parent: int, engines: Loaded) -> None:
    """Run as a child: confined, one socket, until it closes. Never returns."""
    try:
        for fds in (range(3, descriptor), range(descriptor + 1, _FDS_END)):
            os.closerange(fds.start, fds.stop)
        link = socket.socket(fileno=descriptor)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", IDLE_S, 0))
        sandbox.enter(parent)
        link.send(READY)
        serve(link, engines)
    except BaseException:  # noqa: BLE001 - nothing of the forker may run in a child, whatever happened
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
