"""breakpoint() in a worker, and the debugger of `svc run --debug`: debugpy listens in the worker, and names files as the
developer's folder has them. breakpoint() stops in the editor that is attached, else at a prompt in the terminal of `svc run`, else it
waits for an editor.

The worker keeps a connection to `svc run` (src/dev/debug-link.ts) and ends with it, whatever it does. A new worker starts before the one with the code before it has ended, which has the port until then: so it listens as soon as it can.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from time import sleep

VARIABLE = "SVC_DEBUG"
"""JSON: `port` on this machine, `project` as the developer's folder is called, `run`: port and token of `svc run`."""
_LOOK_AGAIN_S = 0.1


def prepare(paths: list[str]) -> None:
    """Before the first work; `paths` begin with the folder of the sources. Raises ImportError without debugpy."""
    text = os.environ.get(VARIABLE)
    if text is not None:
        settings = json.loads(text)
        link = _Link(int(settings["run"]["port"]), str(settings["run"]["token"]))
        _Debugger(int(settings["port"]), str(settings["project"]), paths[0], link).start()
    elif "PYTHONBREAKPOINT" not in os.environ:
        sys.breakpointhook = _refuse


def _refuse(*_arguments, **_keywords) -> None:
    raise RuntimeError("breakpoint() needs a debugger, and no terminal is here: svc run --debug gives this worker one")


class _Link:
    """The way to `svc run`."""

    def __init__(self, port: int, token: str) -> None:
        self._address = ("127.0.0.1", port)
        self._token = token

    def share_life(self) -> None:
        """Ends this worker when `svc run` ends."""
        connection = self._open("life")
        if connection is not None:
            threading.Thread(target=_end_with, args=(connection,), name="svc-run", daemon=True).start()

    def terminal(self):
        """What is typed at its terminal, and what shows there, as text files; None where nobody sits at one. Raises
        RuntimeError when it has ended."""
        connection = self._open("ask")
        if connection is None:
            raise RuntimeError("breakpoint(): the svc run --debug that this worker is for has ended")
        # Two files: one for both would lose what was typed ahead with each word that it shows.
        typed, shown = (connection.makefile(mode, encoding="utf-8", errors="replace") for mode in ("r", "w"))
        connection.close()  # once both are
        if typed.readline() == "yes\n":
            return typed, shown
        typed.close()
        shown.close()
        return None

    def _open(self, word: str):
        try:
            connection = socket.create_connection(self._address)
            connection.sendall(f"{self._token} {word}\n".encode())
        except OSError:
            return None
        return connection


def _end_with(connection: socket.socket) -> None:
    try:
        while connection.recv(1):
            pass
    except OSError:
        pass
    os._exit(0)


class _Debugger:
    def __init__(self, port: int, project: str, source: str, link: _Link) -> None:
        self._port = port
        self._link = link
        self._prompt = None
        """Of a breakpoint() whose function goes on step by step, or has breakpoints of the prompt's own."""
        self._roots = (project, os.path.realpath(source))
        self._listening = threading.Event()

    def start(self) -> None:
        import debugpy  # noqa: F401 (its absence ends the boot)

        self._link.share_life()
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
        """breakpoint(): stops in the caller."""
        caller = sys._getframe(1)
        if self._prompt is not None and self._prompt.is_open:
            self._prompt.set_trace(caller)
            return
        import debugpy

        if not (self._listening.is_set() and debugpy.is_client_connected()):
            terminal = self._link.terminal()
            if terminal is not None:
                sys.modules["pydevd_tracing"].TracingFunctionHolder._warn = False  # of pdb beside pydevd: nobody is attached
                self._prompt = _prompt(*terminal, self._roots[1])
                self._prompt.set_trace(caller)
                return
            self._listening.wait()
            print(f"breakpoint() waits for a debugger at localhost:{self._port}", file=sys.stderr, flush=True)
            debugpy.wait_for_client()
        sys.modules["pydevd"].settrace(
            suspend=True,
            trace_only_current_thread=True,
            patch_multiprocessing=False,
            stop_at_frame=caller,
        )


def _prompt(typed, shown, source: str):
    """pdb at the terminal, until the function goes on without it; files are named from the project's folder."""
    import pdb

    class Prompt(pdb.Pdb):
        is_open = True

        def __init__(self) -> None:
            super().__init__(stdin=typed, stdout=shown, nosigint=True, readrc=False, skip=["svc.*"])

        def format_stack_entry(self, frame_lineno, lprefix=": "):
            return super().format_stack_entry(frame_lineno, lprefix).replace(source + os.sep, "")

        def set_continue(self) -> None:
            super().set_continue()
            if not self.breaks:
                self._leave()

        def set_quit(self) -> None:
            super().set_quit()
            self._leave()

        def _leave(self) -> None:
            self.is_open = False
            typed.close()
            try:
                shown.close()
            except OSError:  # nobody sees it any more
                pass

    return Prompt()
