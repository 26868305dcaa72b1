"""Calls that come from other Python code: what they carry besides the arguments, and answers that keep their types.

A job's input has one more member, no argument can have its name: `"$svc": {"tagged", "convert", "hops", "timeoutMs"}`. A request
has the headers X-Svc-Tagged, X-Svc-Hops and X-Svc-Timeout-Ms. `hops` are the endpoints that wait for this call, the
first one first; `timeoutMs` is how long the caller still waits: a length, as gRPC's `grpc-timeout`, because clocks of two
machines may differ.
"""

from __future__ import annotations

from time import monotonic

from svc import this_worker
from svc._values import codec, tagged
from svc._values.failure import BadInput, describe
from svc._values.type_hints import type_hints
from svc.context import Cancelled, Context
from svc.errors import JobTimedOut, call_cycle

def accept_job(work, given: dict, signature) -> None:
    """Takes the envelope out of the arguments and reads them. Raises BadInput, CallCycle, JobTimedOut."""
    envelope = given.pop(tagged.TAG)
    if envelope.__class__ is not dict:
        raise BadInput(f'the argument "{tagged.TAG}" is reserved')
    hops, timeout_ms = envelope.get("hops"), envelope.get("timeoutMs")
    work.tagged = bool(envelope.get("tagged"))
    work.converts = not work.tagged or bool(envelope.get("convert"))
    _enter(work.context, hops if isinstance(hops, list) else [], timeout_ms)
    if work.tagged and tagged.has_tags(work.body, 1):
        try:
            given.update(_arguments(given, signature.function))
        except tagged.BadTag as error:
            raise BadInput(str(error)) from None


def accept_request(work, name: str, value: str) -> None:
    """One X-Svc- header of a request."""
    context = work.context
    work.peer = True
    name = name.lower()
    if name == "x-svc-tagged":
        work.tagged = value == "1"
    elif name == "x-svc-hops":
        context._hops = tuple(hop for hop in value.split(",") if hop)
    elif name == "x-svc-timeout-ms" and value.isdigit():
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


def _enter(context: Context, hops: list, timeout_ms) -> None:
    context._hops = tuple(str(hop) for hop in hops)
    if isinstance(timeout_ms, (int, float)):
        _shorten(context, timeout_ms)
    _check(context)


def _shorten(context: Context, timeout_ms: float) -> None:
    at = monotonic() + timeout_ms / 1000
    if context._ends_at is None or at < context._ends_at:
        context._ends_at = at


def _check(context: Context) -> None:
    here = this_worker.WORKER
    if here is not None and here.endpoint in context._hops:
        raise call_cycle(context._hops, here.endpoint)
    if context._ends_at is not None and context._ends_at <= monotonic():
        raise JobTimedOut("the caller's deadline passed before the call began")


def encode(work, value) -> bytes:
    """A result or chunk, in the form its caller reads. Raises NotJson."""
    return tagged.encode(value) if work.tagged else codec.encode(value)


def failure_fields(error: BaseException, work) -> dict:
    fields = describe(error, work.context.endpoint)
    if work.cancel_reason and isinstance(error, Cancelled):
        fields["error_message"] = work.cancel_reason
    return fields
