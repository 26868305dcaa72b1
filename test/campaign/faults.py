"""Faults that only another process can cause: `faults.py cut PEER_PID PID`, `faults.py files PID COUNT`.

cut: ends the Unix connection between the two with both ends alive, through a duplicate of PID's socket.
linked: `faults.py linked PEER_PID PID...` prints those that have a Unix connection to PEER_PID.
files: from now on PID may have COUNT descriptors beyond those it has; prints the limit before. COUNT "=N" sets it to N.
"""

import ctypes
import os
import resource
import socket
import struct
import sys

PIDFD_GETFD = 438


def links(pid: int, peer: int) -> list[socket.socket]:
    """Duplicates of its ends. The kernel names the peer as this process counts, not as PID's namespace does."""
    libc = ctypes.CDLL(None, use_errno=True)
    found = []
    try:
        holder = os.pidfd_open(pid)
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return found  # It has just ended.
    for name in names:
        try:
            if not os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:"):
                continue
        except OSError:
            continue
        descriptor = libc.syscall(PIDFD_GETFD, holder, int(name), 0)
        if descriptor < 0:
            sys.exit(f"pidfd_getfd: {os.strerror(ctypes.get_errno())}")
        link = socket.socket(fileno=descriptor)
        if link.family == socket.AF_UNIX:
            other = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
            if other == peer:
                found.append(link)
    return found


def cut(peer: int, pid: int) -> None:
    ends = links(pid, peer)
    for end in ends:
        end.shutdown(socket.SHUT_RDWR)
    print(len(ends))


def linked(peer: int, pids: list[int]) -> None:
    print(*(pid for pid in pids if links(pid, peer)))


def files(pid: int, count: str) -> None:
    now = int(count[1:]) if count.startswith("=") else len(os.listdir(f"/proc/{pid}/fd")) + int(count)
    become_user_of(pid)
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (now, hard))
    print(soft)


def become_user_of(pid: int) -> None:
    """A user may set limits of its own processes; root without that capability may not set those of others."""
    with open(f"/proc/{pid}/status") as status:
        ids = {line.split(":")[0]: int(line.split()[1]) for line in status if line.startswith(("Uid:", "Gid:"))}
    if ids["Uid"] != os.getuid():
        os.setresgid(*[ids["Gid"]] * 3)
        os.setresuid(*[ids["Uid"]] * 3)


if __name__ == "__main__":
    if sys.argv[1] == "cut":
        cut(int(sys.argv[2]), int(sys.argv[3]))
    elif sys.argv[1] == "linked":
        linked(int(sys.argv[2]), [int(pid) for pid in sys.argv[3:]])
    else:
        files(int(sys.argv[2]), sys.argv[3])
