"""Failures in the user's words: type, message, and the frames of the user's code only."""

from __future__ import annotations

import importlib
import os
import sys

_IMPORTLIB = os.path.dirname(importlib.__file__) + os.sep
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class BootFailure(Exception):
    """The endpoint cannot be loaded. `fields` is the head of a BOOT_FAILED frame, without the worker."""

    def __init__(self, fields: dict) -> None:
        super().__init__(fields["error_message"])
        self.fields = fields


class BadInput(Exception):
    """The input does not fit the function; the message names the argument and the signature."""


def describe(error: BaseException, endpoint: str = "") -> dict:
    """error_type, error_message and error_traceback of an exception, as a job's failure carries them."""
    kind = type(error)
    name = (
        kind.__qualname__
        if kind.__module__ in ("builtins", "svc.context")
        else f"{kind.__module__}.{kind.__qualname__}"
    )
    if isinstance(error, BadInput) or kind.__module__ == "svc._values.codec":
        name = "TypeError"
    return {
        "error_type": name,
        "error_message": message_of(error, endpoint),
        "error_traceback": user_traceback(error),
    }


def message_of(error: BaseException, endpoint: str = "") -> str:
    if isinstance(error, SystemExit):
        return f"the function called sys.exit({'' if error.code is None else repr(error.code)})"
    if isinstance(error, ModuleNotFoundError) and error.name:
        return missing_module(error.name, endpoint)
    if isinstance(error, KeyError) and error.args:
        return f"KeyError: {error.args[0]!r}"
    if type(error).__module__ == "svc":
        return error.short_message  # its traceback has the rest
    try:
        return str(error) or type(error).__name__
    except Exception:
        return type(error).__name__


def missing_module(name: str, endpoint: str) -> str:
    top = name.partition(".")[0]
    if top != name and top in sys.modules:
        return f"module {name!r} not found in the installed {top!r}"
    where = f"of endpoint {endpoint!r}" if endpoint else "of the endpoint"
    return f"module {top!r} not found: add it to dependencies {where}"


def user_traceback(error: BaseException) -> str:
    """As Python prints it, with files as the user names them, without the frames of this runtime and of importlib."""
    if isinstance(error, BadInput):
        return f"TypeError: {error}\n"
    import traceback

    def keep_user_frames(summary: traceback.TracebackException | None, seen: set[int]) -> None:
        if summary is None or id(summary) in seen:
            return
        seen.add(id(summary))
        kept = [frame for frame in summary.stack if not _is_ours(frame.filename)]
        for frame in kept:
            _ = frame.line  # Looks the source line up; it needs the whole path.
            frame.filename = _as_imported(frame.filename)
        summary.stack = traceback.StackSummary.from_list(kept)
        keep_user_frames(summary.__cause__, seen)
        keep_user_frames(summary.__context__, seen)

    try:
        summary = traceback.TracebackException.from_exception(error)
        keep_user_frames(summary, set())
        return "".join(summary.format())
    except Exception:
        return f"{type(error).__name__}\n"


def _as_imported(filename: str) -> str:
    """The path below the folder of sys.path it was imported from: "worker.py" instead of where its layer lies."""
    folders = [folder + os.sep for folder in sys.path if folder and filename.startswith(folder + os.sep)]
    return filename[len(max(folders, key=len)) :] if folders else filename


def _is_ours(filename: str) -> bool:
    return filename.startswith((_OURS, _IMPORTLIB, "<frozen importlib", "<frozen runpy"))
