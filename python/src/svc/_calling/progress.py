"""How far a map is, in one line of text: on a terminal and in a notebook it moves, elsewhere its end is told."""

from __future__ import annotations

import os
import sys
import threading
from time import monotonic

from svc._calling.limits import PROGRESS_S

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_BAR_CHARS = 20
_COLUMNS = 80
_ECHO_CHARS = 2
"""What a terminal shows of Ctrl+C: it finds room in the line, and the last line covers it."""


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


class Progress:
    """Written to standard error. `items` says how many there are, if it knows. Any thread may take a step."""

    def __init__(self, name: str, items: Any) -> None:
        self._name = name
        self._total: int | None = len(items) if hasattr(items, "__len__") else None
        self._stream = sys.stderr
        self._is_terminal = self._stream.isatty()
        self._moves = self._is_terminal or in_notebook()
        self._lock = threading.Lock()
        self._began = monotonic()
        self._shown_at = self._began
        self._shown_chars = 0
        self._done = 0
        self._failed = 0
        self._ended = False

    def step(self, failed: bool) -> None:
        """One more call is done."""
        with self._lock:
            self._done += 1
            self._failed += failed
            now = monotonic()
            if self._moves and not self._ended and now - self._shown_at >= PROGRESS_S:
                self._shown_at = now
                self._write("\r", self._line(now - self._began), "")

    def end(self) -> None:
        """Nothing follows; the line stays."""
        with self._lock:
            if not self._ended:
                self._ended = True
                self._write("\r" if self._moves else "", self._line(monotonic() - self._began), "\n")

    def _line(self, seconds: float) -> str:
        rate = self._done / seconds if seconds > 0 else 0.0
        bar = ""
        if self._total:
            filled = min(_BAR_CHARS, _BAR_CHARS * self._done // self._total)
            bar = f"  [{'#' * filled}{'.' * (_BAR_CHARS - filled)}]"
        parts = [str(self._done) if self._total is None else f"{self._done}/{self._total}"]
        if self._failed:
            parts.append(f"{self._failed} failed")
        parts.append(f"{rate:.1f}/s")
        if self._ended:
            parts.append(f"in {_clock(seconds)}")
        elif self._total is not None and rate > 0:
            parts.append(f"{_clock(max(0, self._total - self._done) / rate)} left")
        return self._fitting(bar, "".join(f"  {part}" for part in parts))

    def _fitting(self, bar: str, numbers: str) -> str:
        """One line of the terminal, as nothing moves back over two: the bar is left out, then the end of the name."""
        room = self._room()
        if len(self._name) + len(bar) + len(numbers) <= room:
            return f"{self._name}{bar}{numbers}"
        if len(self._name) + len(numbers) <= room:
            return f"{self._name}{numbers}"
        return f"{self._name[: max(0, room - len(numbers) - 3)]}...{numbers}"[:room]

    def _room(self) -> int:
        if not self._is_terminal:
            return sys.maxsize
        try:
            columns = os.get_terminal_size(self._stream.fileno()).columns
        except (OSError, ValueError):
            columns = 0
        return max(1, (columns or _COLUMNS) - _ECHO_CHARS - 1)

    def _write(self, before: str, line: str, after: str) -> None:
        echo = _ECHO_CHARS if self._ended and self._is_terminal else 0
        padding = " " * max(0, self._shown_chars + echo - len(line)) if self._moves else ""
        self._shown_chars = len(line)
        try:
            self._stream.write(f"{before}{line}{padding}{after}")
            self._stream.flush()
        except (OSError, ValueError):
            self._ended = True  # nobody reads it any more


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
