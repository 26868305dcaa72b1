"""Failures in the user's words: type, message, and the frames of the user's code only."""

from __future__ import annotations

import importlib
import os
import sys

_IMPORTLIB = os.path.dirname(importlib.__file__) + os.sep
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

# What a failure keeps of an exception's text: its beginning and its end. Together they lie in the job's row, where lists show them and
# searches find them, not in a file of their own (INLINE_BODY_MAX_BYTES of the platform).
TYPE_MAX_CHARS = 1_000
MESSAGE_MAX_CHARS = 16 * 1024
TRACEBACK_MAX_CHARS = 32 * 1024


class BootFailure(Exception):
    """The endpoint cannot be loaded. `fields` is the head of a BOOT_FAILED frame, without the worker."""

    def __init__(self, fields: dict) -> None:
        super().__init__(fields["error_message"])
        self.fields = fields


class BadInput(Exception):
    """The input does not fit the function; the message names the argument and the signature."""


def describe(error: BaseException, endpoint: str = "") -> dict:
    """error_type, error_message and error_traceback of an exception, as a job's failure carries them.

    Raises nothing: what tells of a user's exception is the user's code too, and may fail itself.
    """
    try:
        return {
            "error_type": _cut(_type_of(error), TYPE_MAX_CHARS),
            "error_message": _cut(message_of(error, endpoint), MESSAGE_MAX_CHARS),
            "error_traceback": user_traceback(error),
        }
    except BaseException:
        message = "an exception was raised that cannot be described: its own code fails when it is asked what it is"
        return {"error_type": "Exception", "error_message": message, "error_traceback": ""}


def _type_of(error: BaseException) -> str:
    kind = type(error)
    name = (
        kind.__qualname__
        if kind.__module__ in ("builtins", "svc.context")
        else f"{kind.__module__}.{kind.__qualname__}"
    )
    if isinstance(error, BadInput) or kind.__module__ == "svc._values.codec":
        name = "TypeError"
    return name


def _cut(text: str, most: int) -> str:
    left_out = len(text) - most
    if left_out <= 0:
        return text
    return f"{text[: most // 2]}… ({left_out} characters left out) …{text[-(most // 2) :]}"


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
    except BaseException:
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
        return _cut("".join(summary.format()), TRACEBACK_MAX_CHARS)
    except BaseException:
        return f"{type(error).__name__}\n"


def _as_imported(filename: str) -> str:
    """The path below the folder of sys.path it was imported from: "worker.py" instead of where its layer lies."""
    folders = [folder + os.sep for folder in sys.path if folder and filename.startswith(folder + os.sep)]
    return filename[len(max(folders, key=len)) :] if folders else filename


def _is_ours(filename: str) -> bool:
    return filename.startswith((_OURS, _IMPORTLIB, "<frozen importlib", "<frozen runpy"))
