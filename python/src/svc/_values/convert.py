"""Converters made from annotations: what a JSON body, a query string or a form holds → what the function expects.

Rules, messages and type names are those of pydantic v2 in its lax mode, which FastAPI's users know.
"""

from __future__ import annotations

import collections.abc
import enum
import types
import typing
from dataclasses import is_dataclass

from svc._values.type_hints import is_typed_dict


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


def _to_dict(value):
    if isinstance(value, dict):
        return value
    raise fail("Input should be a valid dictionary", "dict_type")


_SCALARS = {
    int: _to_int,
    float: _to_float,
    bool: _to_bool,
    str: _to_str,
    bytes: _to_bytes,
    type(None): _to_none,
    None: _to_none,
}


def converter(annotation):
    """A function that converts or raises Invalid; None where any value is right."""
    if annotation in (typing.Any, object) or isinstance(annotation, (str, typing.TypeVar)):
        return None
    try:
        known = _SCALARS.get(annotation)
    except TypeError:
        known = None
    if known is not None:
        return known
    origin = typing.get_origin(annotation)
    arguments = typing.get_args(annotation)
    if origin is typing.Annotated:
        return converter(arguments[0])
    if origin is typing.Union or origin is types.UnionType:
        return _union(arguments)
    if origin is typing.Literal:
        return _literal(arguments)
    if origin in (list, collections.abc.Sequence, collections.abc.Iterable) or annotation is list:
        return _items(list, "list", "list", arguments[:1])
    if origin in (set, frozenset) or annotation in (set, frozenset):
        return _items(origin or annotation, "set", "set", arguments[:1])
    if origin is tuple or annotation is tuple:
        return _tuple(arguments)
    if origin in (dict, collections.abc.Mapping) or annotation is dict or annotation is collections.abc.Mapping:
        return _mapping(arguments)
    if isinstance(annotation, type):
        return _from_class(annotation)
    return None


def takes_whole_body(annotation) -> bool:
    """dict, a model, a dataclass or a TypedDict: what can take a JSON object as it is."""
    if typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return any(takes_whole_body(member) for member in typing.get_args(annotation) if member is not type(None))
    if typing.get_origin(annotation) in (dict, collections.abc.Mapping) or annotation in (
        dict,
        collections.abc.Mapping,
    ):
        return True
    return isinstance(annotation, type) and (
        is_dataclass(annotation)
        or is_typed_dict(annotation)
        or hasattr(annotation, "__pydantic_validator__")
        or hasattr(annotation, "__get_validators__")
    )


def is_list(annotation) -> bool:
    """Whether repeated query and form fields belong together."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return any(is_list(member) for member in typing.get_args(annotation))
    kinds = (list, set, frozenset, tuple, collections.abc.Sequence, collections.abc.Iterable)
    return typing.get_origin(annotation) in kinds or annotation in kinds


def _from_class(cls: type):
    from svc._values import convert_models as models

    if hasattr(cls, "__pydantic_validator__"):
        return models.pydantic_converter(cls)
    if issubclass(cls, enum.Enum):
        return _enum(cls)
    if is_typed_dict(cls):
        return models.typed_dict_converter(cls)
    if is_dataclass(cls):
        return models.dataclass_converter(cls)
    if cls.__module__ in ("datetime", "uuid", "decimal", "pathlib"):
        return _text_class(cls)
    for base in (bool, int, float, str, bytes):
        if issubclass(cls, base):
            return lambda value: cls(_SCALARS[base](value))
    return None


def _items(kind, word: str, type_name: str, arguments: tuple):
    each = converter(arguments[0]) if arguments else None

    def convert(value):
        if not isinstance(value, (list, tuple, set, frozenset)):
            raise fail(f"Input should be a valid {word}", f"{type_name}_type")
        if each is None:
            return kind(value)
        return kind(_each(enumerate(value), each))

    return convert


def _each(pairs, convert) -> list:
    done, problems = [], []
    for key, value in pairs:
        try:
            done.append(convert(value))
        except Invalid as error:
            problems += [((key, *place), message, type) for place, message, type in error.problems]
    if problems:
        raise Invalid(problems)
    return done


def _tuple(arguments: tuple):
    if not arguments or arguments[-1] is Ellipsis:
        return _items(tuple, "tuple", "tuple", arguments[:1])
    members = [converter(argument) for argument in arguments]

    def convert(value):
        if not isinstance(value, (list, tuple)):
            raise fail("Input should be a valid tuple", "tuple_type")
        if len(value) > len(members):
            message = f"Tuple should have at most {len(members)} items after validation, not {len(value)}"
            raise fail(message, "too_long")
        problems = []
        done = []
        for place, member in enumerate(members):
            if place >= len(value):
                problems.append(((place,), "Field required", "missing"))
                continue
            try:
                done.append(member(value[place]) if member else value[place])
            except Invalid as error:
                problems += [((place, *below), message, type) for below, message, type in error.problems]
        if problems:
            raise Invalid(problems)
        return tuple(done)

    return convert


def _mapping(arguments: tuple):
    if not arguments:
        return _to_dict
    key_converter, value_converter = converter(arguments[0]), converter(arguments[1])

    def convert(value):
        _to_dict(value)
        done, problems = {}, []
        for key, item in value.items():
            try:
                new_key = key_converter(key) if key_converter else key
            except Invalid as error:
                problems += [((key, "[key]", *place), message, type) for place, message, type in error.problems]
                continue
            try:
                done[new_key] = value_converter(item) if value_converter else item
            except Invalid as error:
                problems += [((key, *place), message, type) for place, message, type in error.problems]
        if problems:
            raise Invalid(problems)
        return done

    return convert


def _union(members: tuple):
    optional = type(None) in members
    rest = [member for member in members if member is not type(None)]
    converters = [(member, converter(member)) for member in rest]
    if any(convert is None for _, convert in converters):
        return None
    exact = {member for member in rest if isinstance(member, type)}
    if len(converters) == 1:
        only = converters[0][1]
        return (lambda value: None if value is None else only(value)) if optional else only

    def convert(value):
        if value is None and optional:
            return None
        if value.__class__ in exact and value.__class__ in _SCALARS:
            return value
        problems = []
        for member, attempt in converters:
            try:
                return attempt(value)
            except Invalid as error:
                problems += [((_name(member), *place), message, type) for place, message, type in error.problems]
        raise Invalid(problems)

    return convert


def _name(annotation) -> str:
    if isinstance(annotation, type) and typing.get_origin(annotation) is None:
        return annotation.__name__
    return str(annotation).replace("typing.", "").replace(" ", "")


def _literal(values: tuple):
    expected = f"Input should be {_alternatives([repr(value) for value in values])}"

    def convert(value):
        for candidate in values:
            if candidate == value and candidate.__class__ is value.__class__:
                return candidate
        raise fail(expected, "literal_error")

    return convert


def _alternatives(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _enum(cls):
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


def _text_class(cls):
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
