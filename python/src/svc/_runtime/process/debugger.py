"""breakpoint() in a worker, and the debugger of `svc run --debug`: debugpy listens in the worker, and names files as the
developer's folder has them.

A new worker starts before the one with the code before it has ended, which has the port until then: so it listens as soon as it can.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from time import sleep

VARIABLE = "SVC_DEBUG"
"""JSON: `port` on this machine, `project` as the developer's folder is called."""
_LOOK_AGAIN_S = 0.1


def prepare(paths: list[str]) -> None:
    """Before the first work; `paths` begin with the folder of the sources. Raises ImportError without debugpy."""
    text = os.environ.get(VARIABLE)
    if text is not None:
        settings = json.loads(text)
        _Debugger(int(settings["port"]), str(settings["project"]), paths[0]).start()
    elif "PYTHONBREAKPOINT" not in os.environ:
        sys.breakpointhook = _refuse


def _refuse(*_arguments, **_keywords) -> None:
    raise RuntimeError("breakpoint() needs a debugger, and no terminal is here: svc run --debug gives this worker one")


class _Debugger:
    def __init__(self, port: int, project: str, source: str) -> None:
        self._port = port
        self._roots = (project, os.path.realpath(source))
        self._listening = threading.Event()

    def start(self) -> None:
        import debugpy  # noqa: F401 (its absence ends the boot)

        sys.breakpointhook = self._stop
        if self._is_free():
            self._listen()
        else:
            threading.Thread(target=self._listen_later, name="svc-debugger", daemon=True).start()

    def _is_free(self) -> bool:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", self._port))
            except OSError:
                return False
        return True

    def _listen_later(self) -> None:
        while not self._is_free():
            sleep(_LOOK_AGAIN_S)
        self._listen()

    def _listen(self) -> None:
        os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")  # else it warns of modules that Python froze
        import debugpy
        import debugpy.server.api  # brings pydevd, whose paths have to be set before anybody attaches

        files = sys.modules["pydevd_file_utils"]
        set_paths = files.setup_client_server_paths

        # A client that thinks of a program of its own machine gives the same folder for both sides.
        def with_ours(paths: list) -> None:
            set_paths([self._roots, *(pair for pair in paths if tuple(pair) != self._roots)])

        files.setup_client_server_paths = with_ours
        with_ours([])
        debugpy.configure(subProcess=False)
        debugpy.listen(("127.0.0.1", self._port))
        sys.breakpointhook = self._stop  # pydevd has put its own there, which passes by when nobody is attached
        self._listening.set()

    def _stop(self, *_arguments, **_keywords) -> None:
        """breakpoint(): waits for who attaches, and stops in the caller."""
        self._listening.wait()
        import debugpy

        if not debugpy.is_client_connected():
            print(f"breakpoint() waits for a debugger at localhost:{self._port}", file=sys.stderr, flush=True)
            debugpy.wait_for_client()
        sys.modules["pydevd"].settrace(
            suspend=True,
            trace_only_current_thread=True,
            patch_multiprocessing=False,
            stop_at_frame=sys._getframe(1),
        )
