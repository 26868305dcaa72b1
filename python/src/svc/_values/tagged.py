"""Values between Python peers: JSON, with what JSON lacks as `{"$svc": [tag, payload…]}`. docs/reference/calling.md
lists the tags.

Nothing here imports or finds a class by a name that came over the wire. The annotations of the function that receives
them say what enums, dataclasses and models are rebuilt as; without one they stay their value, or a dict.
"""

from __future__ import annotations

import sys
from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64

from svc._values import codec
from svc._values.codec import NotJson

TAG = "$svc"
_MARK = b'"$svc"'
_PLAIN = frozenset((str, int, bool, type(None)))


class BadTag(ValueError):
    """A tagged value that this version cannot read."""


def has_tags(text: bytes, besides: int = 0) -> bool:
    """Whether the JSON text may hold tagged values, `besides` so many that are none."""
    return text.count(_MARK) > besides


def encode(value, root: str = "result") -> bytes:
    """Tagged JSON in UTF-8. Raises NotJson naming the place inside the value, which is called `root`."""
    return codec.encode(to_json(value, root), root)


def to_json(value, root: str):
    """The value with its tags, made of dict, list, str, int, float, bool and None. Raises NotJson."""
    try:
        return _tagged(value)
    except NotJson as error:
        raise codec.with_place(error, value, root) from None
    except RecursionError:
        raise NotJson(codec.TOO_DEEP.format(root)) from None


def _tagged(value):
    kind = value.__class__
    if kind in _PLAIN:
        return value
    if kind is float:
        return value if value - value == 0 else {TAG: ["float", repr(value)]}
    if kind is list:
        return [_tagged(item) for item in value]
    if kind is dict:
        if TAG not in value and all(key.__class__ is str for key in value):
            return {key: _tagged(item) for key, item in value.items()}
        return {TAG: ["dict", [[_tagged(key), _tagged(item)] for key, item in value.items()]]}
    return _other(value, kind)


def _other(value, kind):
    if hasattr(kind, "__members__") and hasattr(value, "value"):
        return {TAG: ["enum", kind.__qualname__, _tagged(value.value)]}
    if hasattr(kind, "__dataclass_fields__"):
        fields = {name: _tagged(getattr(value, name)) for name in codec.field_names(kind)}
        return {TAG: ["object", kind.__qualname__, fields]}
    if hasattr(kind, "__pydantic_validator__"):
        return {TAG: ["object", kind.__qualname__, _tagged(value.model_dump(mode="json"))]}
    module, name = kind.__module__, kind.__name__
    encoder = _ENCODERS.get((module, name))
    if encoder is not None:
        return {TAG: encoder(value)}
    if module == "numpy" or module.startswith("numpy."):
        return {TAG: _numpy(value, kind)}
    for base, encoder in _BASES:
        if isinstance(value, base):
            return encoder(value)
    if module.startswith("pathlib"):
        return str(value)
    raise codec.not_json(value)


def _base64(data) -> str:
    return b2a_base64(data, newline=False).decode()


def _items(word: str):
    return lambda value: [word, [_tagged(item) for item in value]]


_ENCODERS = {
    ("builtins", "bytes"): lambda value: ["bytes", _base64(value)],
    ("builtins", "bytearray"): lambda value: ["bytearray", _base64(value)],
    ("builtins", "memoryview"): lambda value: ["bytes", _base64(value)],
    ("builtins", "tuple"): _items("tuple"),
    ("builtins", "set"): _items("set"),
    ("builtins", "frozenset"): _items("frozenset"),
    ("builtins", "complex"): lambda value: ["complex", repr(value.real), repr(value.imag)],
    ("datetime", "datetime"): lambda value: ["datetime", value.isoformat()],
    ("datetime", "date"): lambda value: ["date", value.isoformat()],
    ("datetime", "time"): lambda value: ["time", value.isoformat()],
    ("datetime", "timedelta"): lambda value: ["timedelta", value.days, value.seconds, value.microseconds],
    ("uuid", "UUID"): lambda value: ["uuid", value.hex],
    ("decimal", "Decimal"): lambda value: ["decimal", str(value)],
}

# Subclasses arrive as what they derive from.
_BASES = (
    (bool, bool),
    (int, int),
    (float, lambda value: _tagged(float(value))),
    (str, str.__str__),
    (dict, lambda value: _tagged(dict(value))),
    (list, lambda value: _tagged(list(value))),
    (tuple, lambda value: _tagged(tuple(value))),
    (frozenset, lambda value: _tagged(frozenset(value))),
    (set, lambda value: _tagged(set(value))),
    (bytes, lambda value: _tagged(bytes(value))),
)


def _numpy(value, kind):
    numpy = sys.modules["numpy"]
    if isinstance(value, numpy.ndarray) and _is_sendable(value.dtype.str):
        # tobytes() gives the items in C order, whatever the order in memory.
        return ["ndarray", value.dtype.str, list(value.shape), _base64(value.tobytes())]
    if isinstance(value, numpy.generic) and _is_sendable(value.dtype.str):
        return ["numpy", value.dtype.str, _base64(value.tobytes())]
    raise codec.not_json(value)


def _is_sendable(dtype) -> bool:
    """Numbers, truth values, texts, times: "<f8", "|b1", "<U12", "<M8[ns]"; no objects, no records."""
    if not isinstance(dtype, str) or len(dtype) < 3 or dtype[0] not in "<>|=" or dtype[1] not in "biufcmMSU":
        return False
    size, bracket, unit = dtype[2:].partition("[")
    return size.isdigit() and (not bracket or (unit[-1:] == "]" and unit[:-1].isalnum()))


def decode(value, hints: tuple = ()):
    """The value behind tagged JSON. `hints` are the annotations that may describe it. Raises BadTag."""
    try:
        return _untagged(value, hints)
    except BadTag:
        raise
    except (
        ValueError,
        TypeError,
        KeyError,
        IndexError,
        AttributeError,
        OverflowError,
        ArithmeticError,
        Base64Error,
    ) as error:
        raise BadTag(f"a tagged value cannot be read: {error}") from None


def _untagged(value, hints: tuple):
    kind = value.__class__
    if kind is list:
        inner = _inner(hints, "items") if hints else ()
        return [_untagged(item, inner) for item in value]
    if kind is dict:
        if len(value) == 1 and TAG in value:
            tag = value[TAG]
            if tag.__class__ is not list or not tag or tag[0] not in _DECODERS:
                raise BadTag(f"a tagged value cannot be read: {str(tag)[:80]}; is one side's svc older?")
            return _DECODERS[tag[0]](tag, hints)
        if not hints:
            return {key: _untagged(item, ()) for key, item in value.items()}
        return {key: _untagged(item, _inner(hints, "values", key)) for key, item in value.items()}
    return value


def _inner(hints: tuple, what: str, key=None) -> tuple:
    from svc._values.tag_hints import inner

    return inner(hints, what, key)


def _from_items(make):
    return lambda tag, hints: make(_untagged(item, _inner(hints, "items") if hints else ()) for item in tag[1])


def _tuple(tag, hints):
    if not hints:
        return tuple(_untagged(item, ()) for item in tag[1])
    return tuple(_untagged(item, _inner(hints, "place", place)) for place, item in enumerate(tag[1]))


def _dict(tag, hints):
    keys = _inner(hints, "keys") if hints else ()
    return {
        (key := _untagged(pair[0], keys)): _untagged(pair[1], _inner(hints, "values", key) if hints else ())
        for pair in tag[1]
    }


def _enum(tag, hints):
    value = _untagged(tag[2], ())
    if hints:
        from svc._values.tag_hints import find_class

        cls = find_class(hints, tag[1], "enum")
        if cls is not None:
            return cls(value)
    return value


def _object(tag, hints):
    from svc._values.tag_hints import build, find_class

    cls = find_class(hints, tag[1], "object") if hints else None
    if cls is None:
        return {name: _untagged(item, ()) for name, item in tag[2].items()}
    return build(cls, {name: _untagged(item, _inner((cls,), "values", name)) for name, item in tag[2].items()})


def _time(tag, hints):
    import datetime

    return getattr(datetime, tag[0]).fromisoformat(tag[1])


def _timedelta(tag, hints):
    from datetime import timedelta

    return timedelta(tag[1], tag[2], tag[3])


def _uuid(tag, hints):
    from uuid import UUID

    return UUID(hex=tag[1])


def _decimal(tag, hints):
    from decimal import Decimal

    return Decimal(tag[1])


def _array(tag, hints):
    try:
        import numpy
    except ModuleNotFoundError:
        raise BadTag("a numpy value came, and numpy is not installed here: add it to dependencies") from None
    if not _is_sendable(tag[1]):
        raise BadTag(f"a numpy value of type {str(tag[1])[:40]!r} cannot be read")
    dtype = numpy.dtype(tag[1])
    if tag[0] == "numpy":
        return numpy.frombuffer(a2b_base64(tag[2]), dtype)[0]
    return numpy.frombuffer(a2b_base64(tag[3]), dtype).reshape(tag[2]).copy()


_DECODERS = {
    "bytes": lambda tag, hints: a2b_base64(tag[1]),
    "bytearray": lambda tag, hints: bytearray(a2b_base64(tag[1])),
    "float": lambda tag, hints: float(tag[1]),
    "complex": lambda tag, hints: complex(float(tag[1]), float(tag[2])),
    "tuple": _tuple,
    "set": _from_items(set),
    "frozenset": _from_items(frozenset),
    "dict": _dict,
    "enum": _enum,
    "object": _object,
    "datetime": _time,
    "date": _time,
    "time": _time,
    "timedelta": _timedelta,
    "uuid": _uuid,
    "decimal": _decimal,
    "ndarray": _array,
    "numpy": _array,
}
