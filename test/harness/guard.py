"""Runs one test file and ends everything that it started, whatever that did to get away.

    guard.py FILE_MAX_S END_MAX_S LEAVE_MAX_S PROGRAM ARGUMENT...

The guard is the subreaper of the program: a process whose parent dies becomes the guard's child, also one in a session of
its own. So all that came of the program are the guard's descendants, and it kills what is left of them: at the limit, on
SIGTERM, when its own parent dies, and when the program has ended. SIGUSR1 says that the last test is over: the program then
has END_MAX_S to end. What is alive LEAVE_MAX_S after a program that ended by itself was left behind. To file descriptor 3
goes one line of JSON: {"code", "why": "ended" | "limit" | "lingered" | "stopped", "left": [{"pid", "command"}],
"cpu_s"}, the last being processor time of all that was collected.
"""

import ctypes
import json
import os
import resource
import signal
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
KILL_MAX_S = 20


def main() -> None:
    file_max_s, end_max_s, leave_max_s = (float(text) for text in sys.argv[1:4])
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    awaited = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGUSR1}
    signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    os.environ["SVC_TEST_GUARD"] = str(os.getpid())
    program = os.fork()
    if program == 0:
        os.close(3)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, awaited)
        os.execvp(sys.argv[4], sys.argv[4:])
    code, why, over = None, "ended", time.monotonic() + file_max_s
    late = "limit"
    while code is None:
        arrived = signal.sigtimedwait(awaited, max(0.0, over - time.monotonic()))
        if arrived is None:
            why = late
            break
        if arrived.si_signo in (signal.SIGTERM, signal.SIGINT):
            why = "stopped"
            break
        if arrived.si_signo == signal.SIGUSR1 and late == "limit":
            over, late = min(over, time.monotonic() + end_max_s), "lingered"
        code = reap(program)
    if why == "ended":
        until = time.monotonic() + leave_max_s
        while descendants() and time.monotonic() < until:
            signal.sigtimedwait(awaited, 0.05)
            reap(0)
    left = [{"pid": pid, "command": command_of(pid)} for pid in descendants()]
    kill_all()
    reap(0)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    ending = {"code": code, "why": why, "left": left, "cpu_s": used.ru_utime + used.ru_stime}
    os.write(3, json.dumps(ending).encode() + b"\n")


def reap(program: int) -> int | None:
    """Collects the children that ended; the program's exit code when it is among them."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if pid == 0:
            return code
        if pid == program:
            code = os.waitstatus_to_exitcode(status)


def descendants() -> list[int]:
    """Living processes below this one, parents before their children."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                state, parent = file.read().rpartition(b")")[2].split()[:2]
        except OSError:
            continue  # It ended in this moment.
        if state not in (b"Z", b"X"):
            children.setdefault(int(parent), []).append(int(name))
    found = [os.getpid()]
    for pid in found:
        found += children.get(pid, [])
    return found[1:]


def command_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            command = file.read(300).replace(b"\0", b" ").decode(errors="replace").strip()
        with open(f"/proc/{pid}/comm") as file:
            return command or f"[{file.read().strip()}]"
    except OSError:
        return "?"


def kill_all() -> None:
    """Stops all before it kills them: what forks faster than it is killed stands still first."""
    until = time.monotonic() + KILL_MAX_S
    while (alive := descendants()) and time.monotonic() < until:
        for order in (signal.SIGSTOP, signal.SIGKILL):
            for pid in alive:
                try:
                    os.kill(pid, order)
                except OSError:
                    pass
        reap(0)
        time.sleep(0.01)


if __name__ == "__main__":
    main()
