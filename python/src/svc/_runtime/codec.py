"""JSON of inputs and results. NaN and infinities, which JSON lacks, become null."""

from __future__ import annotations

import json
from json import encoder as _json_encoder


class NotJson(Exception):
    """A returned value that JSON cannot express; the message names it and says what to do."""


def _fallback(value):
    """Types that everybody means in one way. Anything else is the user's to convert."""
    kind = type(value)
    module = kind.__module__
    if module == "datetime":
        return value.isoformat() if hasattr(value, "isoformat") else value.total_seconds()
    if module == "uuid" or module.startswith("pathlib"):
        return str(value)
    if isinstance(value, (set, frozenset)):
        return list(value)
    if module == "decimal":
        return int(value) if value == value.to_integral_value() else float(value)
    if hasattr(kind, "__dataclass_fields__"):
        return {name: getattr(value, name) for name in kind.__dataclass_fields__}
    if hasattr(kind, "__pydantic_validator__"):
        return value.model_dump(mode="json")
    if hasattr(kind, "__members__") and hasattr(value, "value"):
        return value.value
    raise NotJson(_why_not(value, kind))


def _why_not(value, kind) -> str:
    name = f"{kind.__module__}.{kind.__qualname__}" if kind.__module__ != "builtins" else kind.__qualname__
    head = f"the result holds a {name}, which is not JSON"
    if kind.__module__.split(".")[0] in ("numpy", "torch", "pandas", "jax", "jaxlib", "cupy"):
        if hasattr(value, "tolist"):
            return f"{head}: convert it with .tolist()"
        if hasattr(value, "to_dict"):
            return f"{head}: convert it with .to_dict()"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"{head}: return base64.b64encode(value).decode() or put it into storage and return its address"
    return f"{head}: return dict, list, str, int, float, bool or None"


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


def encode(value) -> bytes:
    """JSON text of `value` in UTF-8. Raises NotJson."""
    try:
        return _text(value).encode()
    except UnicodeEncodeError:  # lone surrogates
        return json.dumps(value, default=_fallback, separators=(",", ":")).encode()
    except ValueError:
        return _text(_without_nan(value)).encode()
    except RecursionError:
        raise NotJson("the result is nested too deeply or holds itself, which JSON cannot express") from None
    except TypeError as error:  # keys
        raise NotJson(f"the result is not JSON: {error}") from None


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
    return json.loads(string)  # blanks around it, or an error with its place


quote = json.dumps
