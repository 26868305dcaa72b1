"""Calls that come from other Python code: what they carry besides the arguments, and answers that keep their types.

A job's input has one more member, no argument can have its name: `"$svc": {"tagged", "hops", "deadline"}`. A request
has the headers X-Svc-Tagged, X-Svc-Hops and X-Svc-Deadline. `hops` are the endpoints that wait for this call, the
first one first; `deadline` is when the caller stops waiting, in ms since the epoch.
"""

from __future__ import annotations

import sys
from time import time

from svc._calling import place
from svc._values import codec, tagged
from svc._values.failure import BadInput, describe, user_traceback
from svc._values.type_hints import type_hints
from svc.context import Cancelled, Context
from svc.errors import CallCycle, JobTimedOut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from svc._runtime.work.work import Work

LINES = "application/x-svc-lines"
END_LINE = b'{"$svc":["end"]}\n'
"""Without it a stream broke off."""


def accept_job(work: Work, given: dict, signature) -> None:
    """Takes the envelope out of the arguments and reads them. Raises BadInput, CallCycle, JobTimedOut."""
    envelope = given.pop(tagged.TAG)
    if envelope.__class__ is not dict:
        raise BadInput(f'the argument "{tagged.TAG}" is reserved')
    hops, deadline = envelope.get("hops"), envelope.get("deadline")
    work.tagged = bool(envelope.get("tagged"))
    _enter(work.context, hops if isinstance(hops, list) else [], deadline)
    if work.tagged and tagged.has_tags(work.body, 1):
        try:
            given.update(_arguments(given, signature.function))
        except tagged.BadTag as error:
            raise BadInput(str(error)) from None


def accept_request(work: Work, name: str, value: str) -> None:
    """One X-Svc- header of a request."""
    context = work.context
    work.peer = True
    name = name.lower()
    if name == "x-svc-tagged":
        work.tagged = value == "1"
    elif name == "x-svc-hops":
        context._hops = tuple(hop for hop in value.split(",") if hop)
    elif name == "x-svc-deadline" and value.isdigit():
        _shorten(context, int(value))


def check_request(context: Context) -> None:
    """Raises CallCycle, JobTimedOut."""
    _check(context)


def body_of(body: bytes, function):
    """The JSON body of a request with tags. Raises ValueError."""
    value = codec.decode(body)
    if not tagged.has_tags(body):
        return value
    return _arguments(value, function) if value.__class__ is dict and tagged.TAG not in value else tagged.decode(value)


def _arguments(given: dict, function) -> dict:
    from svc._values.tag_hints import alternatives

    hints = type_hints(function)
    return {name: tagged.decode(value, alternatives(hints.get(name))) for name, value in given.items()}


def _enter(context: Context, hops: list, deadline) -> None:
    context._hops = tuple(str(hop) for hop in hops)
    if isinstance(deadline, (int, float)):
        _shorten(context, deadline)
    _check(context)


def _shorten(context: Context, deadline_ms: float) -> None:
    at = deadline_ms / 1000
    if context.deadline is None or at < context.deadline:
        context.deadline = at


def _check(context: Context) -> None:
    here = place.WORKER
    if here is not None and here.own in context._hops:
        raise cycle(context._hops, here.own)
    if context.deadline is not None and context.deadline <= time():
        raise JobTimedOut("the caller's deadline passed before the call began")


def cycle(hops: tuple[str, ...], name: str) -> CallCycle:
    """The error for a call that comes back to `name`."""
    chain = " → ".join((*hops, name))
    return CallCycle(
        f"endpoints call each other in a circle: {chain}. Each would wait for the next one for ever.", endpoint=name
    )


def encode(work: Work, value) -> bytes:
    """A result or chunk, in the form its caller reads. Raises NotJson."""
    return tagged.encode(value) if work.tagged else codec.encode(value)


def reply_to(value):
    """The reply of a route to a Python peer. Raises NotJson."""
    from svc._runtime.http.routes import Reply, is_status
    from svc.response import Response

    status = 200
    if value.__class__ is tuple and len(value) in (2, 3) and is_status(value[1]):
        value, status = value[0], value[1]
    if isinstance(value, Response):
        value, status = value.body, value.status
    if hasattr(value, "__aiter__") or hasattr(value, "__next__"):
        return Reply(status, [["content-type", LINES], ["x-svc-tagged", "lines"]], b"", value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return Reply(status, [["content-type", "application/octet-stream"], ["x-svc-tagged", "bytes"]], bytes(value))
    return Reply(status, [["content-type", "application/json"], ["x-svc-tagged", "value"]], tagged.encode(value))


def failed_reply(error: BaseException, work: Work):
    """A route raised: a Python peer gets what a failed job would tell it."""
    from svc._runtime.http.routes import Reply

    if not isinstance(error, Cancelled):
        print(user_traceback(error), end="", file=sys.stderr)
    fields = _failure(error, work)
    status = 504 if isinstance(error, (Cancelled, JobTimedOut)) else 500
    return Reply(status, [["content-type", "application/json"], ["x-svc-tagged", "error"]], codec.encode(fields))


def line_of(value) -> bytes:
    """One part of a streamed answer."""
    return tagged.encode(value, "chunk") + b"\n"


def error_line(error: BaseException, work: Work) -> bytes:
    """The last line of a stream that failed."""
    return codec.encode({tagged.TAG: ["error", _failure(error, work)]}) + b"\n"


def _failure(error: BaseException, work: Work) -> dict:
    fields = describe(error, work.context.endpoint)
    if work.cancel_reason and isinstance(error, Cancelled):
        fields["error_message"] = work.cancel_reason
    return fields
