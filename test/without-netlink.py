#!/usr/bin/env python3
"""Runs the program that SVC_TEST_PROGRAM names, which hears nothing of the machine's networks: the kernel makes no socket of AF_NETLINK for it.

seccomp(2), "Filter"; steps are of the classic BPF that linux/filter.h describes.
"""

import ctypes
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
AF_NETLINK, EAFNOSUPPORT = 16, 97
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | EAFNOSUPPORT
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
# Of seccomp_data: the call's number, the machine, the first argument.
NUMBER_AT, ARCH_AT, FAMILY_AT = 0, 4, 16
# AUDIT_ARCH_* and the number of socket(2).
MACHINES = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}


class Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))


def step(code: int, value: int, if_not: int = 0) -> bytes:
    return struct.pack("HBBI", code, 0, if_not, value)


def hear_nothing(arch: int, socket_call: int) -> None:
    steps = [
        *(step(LOAD, ARCH_AT), step(EQUAL, arch, if_not=5)),
        *(step(LOAD, NUMBER_AT), step(EQUAL, socket_call, if_not=3)),
        *(step(LOAD, FAMILY_AT), step(EQUAL, AF_NETLINK, if_not=1)),
        *(step(RETURN, REFUSE), step(RETURN, ALLOW)),
    ]
    code = ctypes.create_string_buffer(b"".join(steps))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    filter_ = Filter(len(steps), ctypes.addressof(code))
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(filter_), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")


machine = MACHINES.get(os.uname().machine)
if machine is not None:
    hear_nothing(*machine)
program = os.environ["SVC_TEST_PROGRAM"]
os.execv(program, [program, *sys.argv[1:]])
