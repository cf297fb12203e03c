"""Restrict a process to the few system calls that computing on given memory needs (seccomp(2)).

No file can be opened, no socket made, no program run, no other process looked at or signalled: a decoder that
an image has taken over finds neither the keys in the data folder nor anybody to send them to.
"""

import ctypes
import errno
import platform
import struct
from collections.abc import Sequence
from typing import Final

_X86_64: Final = {
    "read": 0, "write": 1, "close": 3, "fstat": 5, "lseek": 8, "mmap": 9, "mprotect": 10, "munmap": 11,
    "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "ioctl": 16, "sched_yield": 24,
    "mremap": 25, "madvise": 28, "nanosleep": 35, "getpid": 39, "sendto": 44, "recvfrom": 45, "sendmsg": 46,
    "recvmsg": 47, "exit": 60, "fcntl": 72, "gettimeofday": 96, "getrlimit": 97, "getrusage": 98,
    "times": 100, "setrlimit": 160, "gettid": 186, "futex": 202, "sched_getaffinity": 204,
    "restart_syscall": 219, "clock_gettime": 228, "clock_nanosleep": 230, "exit_group": 231,
    "getrandom": 318, "membarrier": 324, "newfstatat": 262, "prlimit64": 302, "getcpu": 309, "rseq": 334,
}  # fmt: skip
_AARCH64: Final = {
    "read": 63, "write": 64, "close": 57, "fstat": 80, "lseek": 62, "mmap": 222, "mprotect": 226,
    "munmap": 215, "brk": 214, "rt_sigaction": 134, "rt_sigprocmask": 135, "rt_sigreturn": 139, "ioctl": 29,
    "sched_yield": 124, "mremap": 216, "madvise": 233, "nanosleep": 101, "getpid": 172, "sendto": 206,
    "recvfrom": 207, "sendmsg": 211, "recvmsg": 212, "exit": 93, "fcntl": 25, "gettimeofday": 169,
    "getrlimit": 163, "getrusage": 165, "times": 153, "setrlimit": 164, "gettid": 178, "futex": 98,
    "sched_getaffinity": 123, "restart_syscall": 128, "clock_gettime": 113, "clock_nanosleep": 115,
    "exit_group": 94, "getrandom": 278, "membarrier": 283, "newfstatat": 79, "prlimit64": 261, "getcpu": 168,
    "rseq": 293,
}  # fmt: skip
"""Numbers of the Linux interface (asm/unistd.h), which never change."""

_ARCHITECTURES: Final = {"x86_64": (0xC000003E, _X86_64), "aarch64": (0xC00000B7, _AARCH64)}
"""AUDIT_ARCH_* of linux/audit.h, by machine."""

_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
"""BPF_LD+W+ABS, BPF_JMP+JEQ+K and BPF_RET+K of linux/bpf_common.h."""
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
"""SECCOMP_RET_* of linux/seccomp.h."""
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16
"""Offsets in struct seccomp_data."""
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2


class _Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def confine() -> bool:
    """Leave this process the listed calls; others fail with EPERM. False where this cannot be had.

    `PR_SET_NO_NEW_PRIVS` must be set. An unknown machine, or a kernel without filters, cannot.
    """
    known = _ARCHITECTURES.get(platform.machine())
    if known is None:
        return False
    code = b"".join(_filter(known[0], known[1]))
    program = _Program(len(code) // 8, code)
    libc = ctypes.CDLL(None, use_errno=True)
    refused: int = libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program), 0, 0)
    return refused == 0


def _filter(architecture: int, calls: dict[str, int]) -> Sequence[bytes]:
    """Return the program: kill a foreign architecture, allow the listed calls, limits of one's own only."""
    others = [number for name, number in calls.items() if name != "prlimit64"]
    start = [
        _step(_LOAD, _ARCHITECTURE_AT),
        _step(_EQUAL, architecture, 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER_AT),
    ]
    tests = [_step(_EQUAL, number, len(others) - index + 3, 0) for index, number in enumerate(others)]
    end = [
        _step(_EQUAL, calls["prlimit64"], 0, 2),
        _step(_LOAD, _FIRST_ARGUMENT_AT),
        _step(_EQUAL, 0, 1, 0),
        _step(_RETURN, _ERRNO | errno.EPERM),
        _step(_RETURN, _ALLOW),
    ]
    return [*start, *tests, *end]


def _step(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """Return one struct sock_filter."""
    return struct.pack("=HBBI", code, if_true, if_false, operand)
