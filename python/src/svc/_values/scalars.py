"""Converters of single values: numbers, texts, enums, dates; and what says that a value does not fit."""

from __future__ import annotations


class Invalid(Exception):
    """What does not fit: a list of (location below the value, message, type)."""

    def __init__(self, problems: list[tuple[tuple, str, str]]) -> None:
        super().__init__(problems)
        self.problems = problems


def fail(message: str, type: str) -> Invalid:
    return Invalid([((), message, type)])


def _to_int(value):
    if value.__class__ is int:
        return value
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float):
        if value.is_integer():
            return int(value)
        raise fail("Input should be a valid integer, got a number with a fractional part", "int_from_float")
    if isinstance(value, (str, bytes)):
        try:
            return int(value)
        except ValueError:
            pass
        text = value if isinstance(value, str) else value.decode("utf-8", "replace")
        whole, point, fraction = text.partition(".")
        if point and not fraction.strip().strip("0"):
            try:
                return int(whole)
            except ValueError:
                pass
        raise fail("Input should be a valid integer, unable to parse string as an integer", "int_parsing")
    raise fail("Input should be a valid integer", "int_type")


def _to_float(value):
    if value.__class__ is float:
        return value
    if isinstance(value, int):
        return float(value)
    if isinstance(value, (str, bytes)):
        try:
            return float(value)
        except ValueError:
            raise fail("Input should be a valid number, unable to parse string as a number", "float_parsing") from None
    raise fail("Input should be a valid number", "float_type")


_TRUE = frozenset(("1", "on", "t", "true", "y", "yes"))
_FALSE = frozenset(("0", "off", "f", "false", "n", "no"))


def _to_bool(value):
    if value.__class__ is bool:
        return value
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        word = value.lower()
        if word in _TRUE:
            return True
        if word in _FALSE:
            return False
    elif isinstance(value, (int, float)) and value % 1 == 0 and abs(value) < 2**63:
        if value in (0, 1):
            return bool(value)
    else:
        raise fail("Input should be a valid boolean", "bool_type")
    raise fail("Input should be a valid boolean, unable to interpret input", "bool_parsing")


def _to_str(value):
    if value.__class__ is str:
        return value
    if isinstance(value, (bytes, bytearray)):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise fail(
                "Input should be a valid string, unable to parse raw data as a unicode string", "string_unicode"
            ) from None
    raise fail("Input should be a valid string", "string_type")


def _to_bytes(value):
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    raise fail("Input should be a valid bytes", "bytes_type")


def _to_none(value):
    if value is not None:
        raise fail("Input should be None", "none_required")


def to_dict(value):
    if isinstance(value, dict):
        return value
    raise fail("Input should be a valid dictionary", "dict_type")


SCALARS = {
    int: _to_int,
    float: _to_float,
    bool: _to_bool,
    str: _to_str,
    bytes: _to_bytes,
    type(None): _to_none,
    None: _to_none,
}


def literal_converter(values: tuple):
    expected = f"Input should be {_alternatives([repr(value) for value in values])}"

    def convert(value):
        for candidate in values:
            if candidate == value and candidate.__class__ is value.__class__:
                return candidate
        raise fail(expected, "literal_error")

    return convert


def _alternatives(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def enum_converter(cls):
    by_value = {member.value: member for member in cls}
    expected = f"Input should be {_alternatives([repr(member.value) for member in cls])}"
    is_numeric = any(isinstance(value, (int, float)) for value in by_value)

    def convert(value):
        if isinstance(value, cls):
            return value
        try:
            if value in by_value:
                return by_value[value]
        except TypeError:
            pass
        if is_numeric and isinstance(value, str):
            try:
                return by_value[float(value)]
            except (ValueError, KeyError):
                pass
        raise fail(expected, "enum")

    return convert


def text_class_converter(cls):
    name = cls.__name__.lower()
    read = getattr(cls, "fromisoformat", cls)
    words = {"uuid": "UUID", "path": "path", "decimal": "decimal"}.get(name, name)
    types_by_name = {"uuid": "uuid_parsing", "decimal": "decimal_parsing", "path": "path_type"}

    def convert(value):
        if isinstance(value, cls):
            return value
        if isinstance(value, (int, float)) and name == "decimal":
            value = str(value)
        if isinstance(value, str):
            try:
                return read(value.replace("Z", "+00:00") if name == "datetime" else value)
            except Exception:
                pass
        raise fail(f"Input should be a valid {words}", types_by_name.get(name, f"{name}_parsing"))

    return convert
