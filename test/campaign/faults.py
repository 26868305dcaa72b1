"""Faults that only another process can cause: `faults.py cut PID PEER_PID`, `faults.py files PID COUNT`.

cut: ends the Unix connection between the two with both ends alive, through a duplicate of PID's socket.
files: from now on PID may have COUNT descriptors beyond those it has; prints the limit before. COUNT "=N" sets it to N.
"""

import ctypes
import os
import resource
import socket
import struct
import sys

PIDFD_GETFD = 438


def cut(pid: int, peer: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    holder = os.pidfd_open(pid)
    done = 0
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            if not os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:"):
                continue
        except OSError:
            continue
        descriptor = libc.syscall(PIDFD_GETFD, holder, int(name), 0)
        if descriptor < 0:
            sys.exit(f"pidfd_getfd: {os.strerror(ctypes.get_errno())}")
        with socket.socket(fileno=descriptor) as link:
            if link.family != socket.AF_UNIX:
                continue
            other = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
            if other == peer:
                link.shutdown(socket.SHUT_RDWR)
                done += 1
    print(done)


def files(pid: int, count: str) -> None:
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    now = int(count[1:]) if count.startswith("=") else len(os.listdir(f"/proc/{pid}/fd")) + int(count)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (now, hard))
    print(soft)


if __name__ == "__main__":
    if sys.argv[1] == "cut":
        cut(int(sys.argv[2]), int(sys.argv[3]))
    else:
        files(int(sys.argv[2]), sys.argv[3])
