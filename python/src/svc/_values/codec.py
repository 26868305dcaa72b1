"""JSON of inputs and results, for everybody: NaN and infinities, which JSON lacks, become null, bytes base64 text.

What Python peers send each other keeps its types: tagged.py.
"""

from __future__ import annotations

import json
from json import encoder as _json_encoder

TOO_DEEP = "the {} is nested too deeply or holds itself, which JSON cannot express"


class NotJson(Exception):
    """A value that JSON cannot express; the message names its place and says what to do."""


def _fallback(value):
    """Types that everybody means in one way. Anything else is the user's to convert."""
    kind = type(value)
    module = kind.__module__
    if module == "datetime":
        return value.isoformat() if hasattr(value, "isoformat") else value.total_seconds()
    if module == "uuid" or module.startswith("pathlib"):
        return str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        from binascii import b2a_base64

        return b2a_base64(value, newline=False).decode()
    if isinstance(value, (set, frozenset)):
        return list(value)
    if module == "decimal":
        return _number(value)
    if hasattr(kind, "__dataclass_fields__"):
        return {name: getattr(value, name) for name in field_names(kind)}
    if hasattr(kind, "__pydantic_validator__"):
        return value.model_dump(mode="json")
    if hasattr(kind, "__members__") and hasattr(value, "value"):
        return value.value
    if kind is complex:
        return [value.real, value.imag]
    if module.partition(".")[0] == "numpy" and hasattr(value, "tolist"):
        plain = value.tolist()
        if plain is not value:
            return plain
    raise not_json(value)


def _number(value):
    if not value.is_finite():
        return None
    return int(value) if value == value.to_integral_value() else float(value)


def field_names(kind) -> list[str]:
    """Fields of a dataclass, without its ClassVars and InitVars."""
    from dataclasses import fields

    return [field.name for field in fields(kind)]


def not_json(value, place: str = "the value") -> NotJson:
    """The error for a value of a type that cannot be sent."""
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}" if kind.__module__ != "builtins" else kind.__qualname__
    head = f"{place}: a {name} is not JSON"
    if kind.__module__.partition(".")[0] in ("numpy", "torch", "pandas", "jax", "jaxlib", "cupy"):
        if hasattr(value, "tolist"):
            return NotJson(f"{head}; convert it with .tolist()")
        if hasattr(value, "to_dict"):
            return NotJson(f"{head}; convert it with .to_dict()")
    return NotJson(f"{head}; make it of dict, list, str, bytes, int, float, bool or None")


def with_place(error: NotJson, value, root: str) -> NotJson:
    """The same error with the place inside `value`, e.g. `result["items"][3].image`."""
    found = _find(value, root, 0)
    return error if found is None else not_json(found[1], found[0])


def _find(value, place: str, depth: int):
    """(place, part) of the first part that cannot be sent; only looked for when there is one."""
    if depth > 200 or value is None or isinstance(value, (str, int, float)):
        return None
    if isinstance(value, dict):
        parts = [(f"{place}[{key!r}]".replace("['", '["').replace("']", '"]'), item) for key, item in value.items()]
    elif isinstance(value, (list, tuple)):
        parts = [(f"{place}[{number}]", item) for number, item in enumerate(value)]
    elif isinstance(value, (set, frozenset)):
        parts = [(f"{place}{{…}}", item) for item in value]
    elif hasattr(type(value), "__dataclass_fields__"):
        parts = [(f"{place}.{name}", getattr(value, name)) for name in field_names(type(value))]
    else:
        try:
            simpler = _fallback(value)
        except NotJson:
            return place, value
        parts = [(place, simpler)]
    for below, part in parts:
        found = _find(part, below, depth + 1)
        if found is not None:
            return found
    return None


if _json_encoder.c_make_encoder is not None:
    # json.dumps makes a new encoder for each call; this one is kept. No markers: a circular value is a RecursionError.
    _encode_parts = _json_encoder.c_make_encoder(
        None, _fallback, _json_encoder.encode_basestring, None, ":", ",", False, False, False
    )

    def _text(value) -> str:
        return "".join(_encode_parts(value, 0))

else:

    def _text(value) -> str:
        return json.dumps(value, default=_fallback, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def encode(value, root: str = "result") -> bytes:
    """JSON text of `value` in UTF-8. Raises NotJson naming the place inside the value, which is called `root`."""
    try:
        return _text(value).encode()
    except UnicodeEncodeError:  # lone surrogates
        return json.dumps(value, default=_fallback, separators=(",", ":")).encode()
    except ValueError:
        return _text(_without_nan(value)).encode()
    except RecursionError:
        raise NotJson(TOO_DEEP.format(root)) from None
    except TypeError as error:  # keys
        raise NotJson(f"the {root} is not JSON: {error}") from None
    except NotJson as error:
        raise with_place(error, value, root) from None


def _without_nan(value):
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(item) for item in value]
    if isinstance(value, (str, int)) or value is None:
        return value
    return _without_nan(_fallback(value))


_scan = json.JSONDecoder().scan_once


def decode(text: bytes):
    """The value of JSON bytes. Raises ValueError."""
    string = text.decode()
    try:
        value, end = _scan(string, 0)
        if end == len(string):
            return value
    except StopIteration:
        pass
    except RecursionError:
        raise json.JSONDecodeError("Nested too deeply", string, 0) from None
    return json.loads(string)  # blanks around it, or an error with its place


quote = json.dumps
