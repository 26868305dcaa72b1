"""Heads of the platform's frames, as docs/reference/protocol.md has them: a worker never acts on one that is not."""

from __future__ import annotations

from itertools import product

from svc._runtime.link.protocol import CANCEL, JOB, REQUEST, WINDOW, FrameError, parse_head

_TEXT = (str,)
_WHOLE = (int,)
_NUMBER = (int, float)
_LIST = (list,)

# By type: key, what it may be (true and false are no numbers here), and whether it must be there.
_FIELDS = {
    JOB: (("job", _TEXT, True), ("fence", _WHOLE, True), ("timeoutMs", _NUMBER, False), ("method", _TEXT, False)),
    REQUEST: (
        ("method", _TEXT, True),
        ("path", _TEXT, True),
        ("id", _TEXT, False),
        ("query", _TEXT, False),
        ("headers", _LIST, True),
        ("timeoutMs", _NUMBER, False),
        ("publicRoutes", _TEXT, False),
    ),
    CANCEL: (("reason", _TEXT, False),),
    WINDOW: (("bytes", _WHOLE, True),),
}

_ABSENT = None.__class__
_JOBS = frozenset(product(_TEXT, _WHOLE, (*_NUMBER, _ABSENT), (*_TEXT, _ABSENT)))
"""What the fields of a job's head may be, together: the way that every job takes asks once, without a loop."""


def read_head(type: int, head: bytes) -> dict:
    """Raises FrameError when it is not what a frame of this type has."""
    read = parse_head(head)
    get = read.get
    if type == JOB and (
        get("job").__class__, get("fence").__class__, get("timeoutMs").__class__, get("method").__class__
    ) in _JOBS:  # fmt: skip
        return read
    for key, kinds, needed in _FIELDS[type]:
        value = get(key)
        if value.__class__ in kinds or (value is None and not needed):
            continue
        raise FrameError(f"the head of a frame of type {type} has no good {key}")
    for pair in read["headers"] if type == REQUEST else ():
        if (
            pair.__class__ is not list
            or len(pair) != 2
            or pair[0].__class__ is not str
            or pair[1].__class__ is not str
        ):
            raise FrameError("a request's headers are not pairs of text")
    return read
