"""One job or request on its way through a worker, and the frames that answer it."""

from __future__ import annotations

import os
from time import perf_counter

from svc._runtime.limits import RESULT_MAX_BYTES, STREAM_WINDOW_BYTES
from svc._runtime.link.protocol import JOB, RESULT, encode
from svc._values import codec
from svc._values.failure import BadInput, describe
from svc.context import Cancelled, Context
from svc.version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable


class Work:
    __slots__ = (
        "began", "body", "cancel_reason", "channel", "context", "converts", "gate", "gone", "head", "interrupted", "peer", "started",
        "sync", "tagged", "task", "thread", "type", "upload", "window",
    )  # fmt: skip

    def __init__(self, type: int, channel: int, head: dict, body: bytes) -> None:
        self.type = type
        self.channel = channel
        self.head = head
        self.body = body
        self.began = 0.0
        """When its function was about to be called; 0 before."""
        self.context: Context | None = None
        self.cancel_reason = ""
        self.interrupted = False
        """Its function has been sent the Cancelled that it gets (interruption.py)."""
        self.thread = 0
        """The thread where it can be interrupted; 0: in none."""
        self.task = None
        """The asyncio task that runs it."""
        self.sync = False
        """That task waits for a thread."""
        self.started = False
        """The head of a streamed response is out; a job's function turned out to be a generator."""
        self.window = STREAM_WINDOW_BYTES
        """Bytes of a streamed response that may still be sent."""
        self.gate: Callable[[], None] | None = None
        """Wakes whoever waits for it to open."""
        self.gone: Callable[[], None] | None = None
        """Called instead of a cancel: an ASGI application hears of it in its own way."""
        self.upload = None
        """The request's body while it arrives, where the function reads it as it comes."""
        self.peer = False
        """A request that says who waits for it, or until when."""
        self.tagged = False
        """Its caller is Python: results keep their types (peer.py)."""
        self.converts = True
        """Its arguments become what the annotations say; those of a declared function's caller are that already."""


class Identity:
    """Who this worker is; goes into contexts and failures."""

    __slots__ = ("endpoint", "environment", "hostname", "worker")

    def __init__(self, worker: str, endpoint: str, environment: str) -> None:
        self.worker = worker
        self.endpoint = endpoint
        self.environment = environment
        self.hostname = os.uname().nodename


def job_call(work: Work, callables: dict):
    """The function and the keyword arguments of a job. Raises BadInput."""
    try:
        given = codec.decode(work.body) if work.body else {}
    except ValueError as error:
        raise BadInput(f"the input is not JSON: {error}") from None
    if given.__class__ is not dict:
        raise BadInput("the input is not an object of arguments by name")
    method = work.head.get("method") or ""
    if "method" in given and not method:
        method = method_in(given, callables)
    function = callables.get(method)
    if function is None:
        if method or "openai_route" not in given:
            raise _no_function(method, callables)
        function = _for_openai(callables)
    if "__empty" in given and "__empty" not in function.signature.names:
        del given["__empty"]  # Callers of the same family send {"__empty": true} for no arguments.
    if "$svc" in given:
        from svc._runtime.work.peer import accept_job

        accept_job(work, given, function.signature)
    work.body = b""  # it may be large, and what is in it was taken out
    function.signature.check(given)
    if function.conversion is not None and work.converts:
        function.conversion.convert(given)
    return function, given


def method_in(given: dict, callables: dict) -> str:
    """A method that the input names, as callers of the same family do: then it is no argument. "" for none."""
    name = given["method"]
    if not isinstance(name, str) or not name or name not in callables or "method" in callables[name].signature.names:
        return ""
    del given["method"]
    return name


def _for_openai(callables: dict):
    """The method of a class that answers OpenAI clients: the one that takes their route. Raises BadInput."""
    found = [each for each in callables.values() if "openai_route" in each.signature.names]
    if len(found) == 1:
        return found[0]
    raise _no_function("", callables)


def _no_function(method: str, callables: dict) -> BadInput:
    known = ", ".join(sorted(name for name in callables if name))
    return BadInput(f"no method {method!r}; there are {known}" if method else f'choose one with "method": {known}')


def encoded(work: Work, value) -> bytes:
    """A result or chunk in the form that the job's caller reads. Raises NotJson."""
    if work.tagged:
        from svc._runtime.work.peer import encode

        return encode(work, value)
    return codec.encode(value)


def call_with(function, given: dict):
    """Calls by keyword; positional-only parameters are passed in their place."""
    names = function.signature.positional_only
    if names:
        positional = [given.pop(name) for name in names if name in given]
        return function.call(*positional, **given)
    return function.call(**given)


def exec_ms(work: Work) -> float:
    return (perf_counter() - work.began) * 1000


def job_result(work: Work, ok: bool, body: bytes, begun: bool = True, raised: bool = False) -> bytes:
    """The RESULT frame of a job; `raised`: it may be tried again."""
    head = work.head
    text = '{"job":%s,"fence":%d,"ok":%s,"execMs":%.3f%s}' % (
        codec.quote(head["job"]),
        head["fence"],
        "true" if ok else "false",
        exec_ms(work) if begun else 0.0,
        ',"raised":true' if raised else "" if begun else ',"begun":false',
    )
    return encode(RESULT, work.channel, text.encode(), body)


def output_of(work: Work, value) -> tuple[bool, bytes]:
    """(ok, body) of a returned value. `{"error": text}` is a failure with that text. Raises NotJson."""
    if value.__class__ is dict and value.get("error"):
        error = value["error"]
        return False, codec.encode(error if isinstance(error, str) else codec.encode(error).decode())
    body = encoded(work, value)
    if len(body) > RESULT_MAX_BYTES:
        raise too_large(f"the result takes {len(body)} bytes")
    return True, body


def too_large(what: str) -> codec.NotJson:
    return codec.NotJson(f"{what}, over the limit of {RESULT_MAX_BYTES // 1024 // 1024} MiB: store it and return its address")


def failure_fields(error: BaseException, who: Identity, reason: str = "") -> dict:
    """What a failed job's RESULT says."""
    fields = describe(error, who.endpoint)
    if reason and isinstance(error, Cancelled):
        fields["error_message"] = reason
    fields["hostname"] = who.hostname
    fields["worker_id"] = who.worker
    fields["svc_version"] = VERSION
    return fields


def cancelled_frame(work: Work, who: Identity) -> bytes:
    """The answer to work that was cancelled before it began: its slot is free again."""
    if work.type == JOB:
        failure = failure_fields(Cancelled(work.cancel_reason), who, work.cancel_reason)
        return job_result(work, False, codec.encode(failure), begun=False)
    return encode(RESULT, work.channel, b'{"status":499,"headers":[]}')


def new_context(work: Work, who: Identity, report) -> Context:
    head = work.head
    context = Context(
        head["job"] if work.type == JOB else head.get("id", ""),
        who.endpoint,
        who.environment,
        who.worker,
        head.get("timeoutMs"),
        work.channel,
        report,
    )
    if "attempt" in head:
        context.attempt = head["attempt"]
    if "traceparent" in head:
        context._traceparent = head["traceparent"]
    if work.type != JOB:
        context.method = head.get("method", "")
        context.path = head.get("path", "")
        context._headers = head.get("headers", ())
    work.context = context
    if work.type != JOB:
        for name, value in context._headers:
            if "vc-" in name and name[:6].lower() == "x-svc-":
                from svc._runtime.work.peer import accept_request

                accept_request(work, name, value)
    return context
