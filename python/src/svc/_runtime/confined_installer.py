"""Runs an installer of packages, which reads what strangers wrote, where it sees no more of the machine than a worker does.

    platform ── python3 -I -S confined_installer.py SETTINGS COMMAND… ──▶ this process ── forks ──▶ the command, process 1 of its namespaces

SETTINGS is JSON: "folder" is the only place that keeps what is written, "home" a folder in it, "paths" what stays to be
seen of the "hidden" folders, "uid" who the installer is where the platform is root, and "python" that the command is
this interpreter. What keeps workers apart (confine/isolation.py) keeps the installer apart, and the first line printed says what
of it there is. The network stays open: the package index is there.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    from svc._runtime.confined_installer import main

    main()

import json
import signal

from svc._runtime.confine import kernel
from svc._runtime.confine.isolation import Isolation
from svc._runtime.process.new_process import fork_apart

SAID = "[svc] installer: "


def main() -> None:
    settings, command = json.loads(sys.argv[1]), sys.argv[2:]
    if settings.get("python"):
        command[0] = sys.executable
    start = {"isolation": "standard", "limits": "none", "writable": [settings["folder"]]}
    start.update((name, settings[name]) for name in ("hidden", "paths", "uid") if settings.get(name))
    isolation = Isolation.find()
    print(f"{SAID}{isolation.in_force(start)}", flush=True)
    user = isolation.user(start)
    if user != os.getuid():
        _hand_over(settings["folder"], user)
    kernel.become_subreaper()
    kernel.die_with_parent()
    gate, born = os.pipe()
    pid = fork_apart(isolation.way(start), lambda: _run(isolation, start, settings["home"], command, (gate, born)))
    os.close(gate)
    os.write(born, b"1")
    ended, status = 0, 0
    while ended != pid:
        ended, status = os.waitpid(-1, 0)
    # Without namespaces it may have left something behind.
    while kernel.kill_descendants(os.getpid()):
        os.waitpid(-1, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        print(f"{SAID}killed by {signal.Signals(-code).name}", file=sys.stderr, flush=True)
    os._exit(code if code >= 0 else 128 - code)


def _run(isolation: Isolation, start: dict, home: str, command: list[str], gate: tuple[int, int]) -> None:
    """Becomes the command, when the process that it is to die with has become its parent."""
    try:
        os.close(gate[1])
        if not os.read(gate[0], 1):
            return
        os.chdir("/")
        isolation.confine_endpoint(start)
        os.environ.update(HOME=home, TMPDIR=home)
        os.chdir(home)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.closerange(3, 65536)
        kernel.die_with_parent()  # becoming another user took that off
        os.execv(command[0], command)
    except BaseException as error:
        os.write(2, f"{SAID}cannot be run apart: {error}\n".encode())
    finally:
        os._exit(127)


def _hand_over(folder: str, user: int) -> None:
    os.chown(folder, user, user)
    for above, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.chown(os.path.join(above, name), user, user, follow_symlinks=False)
