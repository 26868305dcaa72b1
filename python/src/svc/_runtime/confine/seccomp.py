"""System calls that are kept from a worker, as they reach outside it. x86-64 and arm64."""

from __future__ import annotations

import errno
import os
import socket
import struct

from svc._runtime.confine import kernel
from svc._runtime.confine.kernel import checked

_LOAD, _JUMP_IF_EQUAL, _JUMP_IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
# Of seccomp_data: the call's number, the machine, and the lower halves of the second and third argument.
_NUMBER, _MACHINE, _SECOND, _THIRD = 0, 4, 24, 32
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_REFUSE = _FAIL | errno.EPERM
_AS_IF_DONE, _NOT_THERE = _FAIL | 0, _FAIL | errno.ENOSYS
_X32_BIT = 0x40000000

# ptrace, process_vm_readv/writev, kcmp, mount, umount2, pivot_root, swapon/off, reboot, kexec(_file)_load, init/finit/
# delete_module, bpf, perf_event_open, userfaultfd, keyctl, add_key, request_key, open_by_handle_at, unshare, setns, acct,
# settimeofday, clock_settime, quotactl, io_uring_*, and the newer mount calls, which have one number everywhere.
_EVERYWHERE = (425, 426, 427, 428, 429, 430, 431, 432, 433, 442)
_BY_MACHINE = {
    "x86_64": (
        0xC000003E,
        (101, 310, 311, 312, 165, 166, 155, 167, 168, 169, 246, 320, 175, 313, 176, 321, 298, 323, 250, 248, 249, 304,
         272, 308, 163, 164, 227, 179, 172, 173),
    ),
    "aarch64": (
        0xC00000B7,
        (117, 270, 271, 272, 40, 39, 41, 224, 225, 142, 104, 294, 105, 273, 106, 280, 241, 282, 219, 217, 218, 265,
         97, 268, 89, 170, 112, 60),
    ),
}  # fmt: skip


_IO_URING_SETUP = 425
_SETSOCKOPT = {0xC000003E: 54, 0xC00000B7: 208}
_SPECULATION_ALLOWED = 4
"""SECCOMP_FILTER_FLAG_SPEC_ALLOW: older kernels slow down what has a filter, else."""


def is_available() -> bool:
    return os.uname().machine in _BY_MACHINE and os.path.exists("/proc/sys/kernel/seccomp")


def refuse_dangerous_calls() -> None:
    """They fail with EPERM from now on, in this process and all it starts. Needs no_new_privs. Raises OSError."""
    architecture, numbers = _BY_MACHINE[os.uname().machine]
    refused = [*numbers, *_EVERYWHERE]
    program = _begin(architecture)
    to_refusal = len(refused) + 1
    program.append((_JUMP_IF_AT_LEAST, to_refusal, 0, _X32_BIT))
    for index, number in enumerate(refused):
        program.append((_JUMP_IF_EQUAL, len(refused) - index, 0, number))
    program += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _REFUSE)]
    _install(program)


def keep_ports_unshared() -> None:
    """SO_REUSEPORT does nothing from now on, and io_uring, which could set it, is not there: else whoever is this user takes part in
    what comes to its ports, and the platform's are among them. Programs set it without need, so that it does not fail. Needs
    no_new_privs. Raises OSError."""
    architecture, _ = _BY_MACHINE[os.uname().machine]
    program = _begin(architecture)
    program += [
        (_JUMP_IF_AT_LEAST, 7, 0, _X32_BIT),
        (_JUMP_IF_EQUAL, 7, 0, _IO_URING_SETUP),
        (_JUMP_IF_EQUAL, 0, 4, _SETSOCKOPT[architecture]),
        (_LOAD, 0, 0, _SECOND),
        (_JUMP_IF_EQUAL, 0, 2, socket.SOL_SOCKET),
        (_LOAD, 0, 0, _THIRD),
        (_JUMP_IF_EQUAL, 3, 0, socket.SO_REUSEPORT),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _NOT_THERE),
        (_RETURN, 0, 0, _AS_IF_DONE),
    ]
    try:
        _install(program, _SPECULATION_ALLOWED)
    except OSError:  # Before Linux 4.17 there is no such flag.
        _install(program)


def _begin(architecture: int) -> list[tuple]:
    """With the call's number, of this architecture."""
    return [
        (_LOAD, 0, 0, _MACHINE),
        (_JUMP_IF_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _REFUSE),
        (_LOAD, 0, 0, _NUMBER),
    ]


def _install(program: list[tuple], flags: int = 0) -> None:
    code = b"".join(struct.pack("=HBBI", *step) for step in program)
    checked(kernel.set_filter(code, len(program), flags))
