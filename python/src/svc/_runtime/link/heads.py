"""Heads of the platform's frames, as docs/reference/protocol.md has them: a worker never acts on one that is not."""

from __future__ import annotations

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
    ),
    CANCEL: (("reason", _TEXT, False),),
    WINDOW: (("bytes", _WHOLE, True),),
}


def read_head(type: int, head: bytes) -> dict:
    """Raises FrameError when it is not what a frame of this type has."""
    read = parse_head(head)
    for key, kinds, needed in _FIELDS[type]:
        value = read.get(key)
        if value.__class__ in kinds or (value is None and not needed):
            continue
        raise FrameError(f"the head of a frame of type {type} has no good {key}")
    for pair in read.get("headers", ()) if type == REQUEST else ():
        if pair.__class__ is not list or [part.__class__ for part in pair] != [str, str]:
            raise FrameError("a request's headers are not pairs of text")
    return read
