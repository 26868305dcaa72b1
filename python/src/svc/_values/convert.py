"""Converters made from annotations: what a JSON body, a query string or a form holds → what the function expects.

Rules, messages and type names are those of pydantic v2 in its lax mode, which FastAPI's users know.
"""

from __future__ import annotations

import collections.abc
import enum
import types
import typing
from dataclasses import MISSING, fields, is_dataclass

from svc._values.scalars import SCALARS, Invalid, enum_converter, fail, literal_converter, text_class_converter, to_dict
from svc._values.type_hints import is_typed_dict, type_hints


def converter(annotation):
    """A function that converts or raises Invalid; None where any value is right."""
    if annotation in (typing.Any, object) or isinstance(annotation, (str, typing.TypeVar)):
        return None
    try:
        known = SCALARS.get(annotation)
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
        return literal_converter(arguments)
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
    if hasattr(cls, "__pydantic_validator__"):
        return _pydantic(cls)
    if issubclass(cls, enum.Enum):
        return enum_converter(cls)
    if is_typed_dict(cls):
        return _typed_dict(cls)
    if is_dataclass(cls):
        return _dataclass(cls)
    if cls.__module__ in ("datetime", "uuid", "decimal", "pathlib"):
        return text_class_converter(cls)
    for base in (bool, int, float, str, bytes):
        if issubclass(cls, base):
            return lambda value: cls(SCALARS[base](value))
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
        return to_dict
    key_converter, value_converter = converter(arguments[0]), converter(arguments[1])

    def convert(value):
        to_dict(value)
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
        if value.__class__ in exact and value.__class__ in SCALARS:
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


def _object(cls, members_of, make, not_a_dict: Invalid):
    """`members_of()` gives (name, converter, required) of each; with the first value, because a class may hold itself."""
    known: list | None = None

    def convert(value):
        nonlocal known
        if isinstance(value, cls) and cls is not dict:
            return value
        if not isinstance(value, dict):
            raise not_a_dict
        if known is None:
            known = members_of()
        given, problems = {}, []
        for name, member, required in known:
            if name in value:
                try:
                    given[name] = member(value[name]) if member else value[name]
                except Invalid as error:
                    problems += [((name, *place), message, type) for place, message, type in error.problems]
            elif required:
                problems.append(((name,), "Field required", "missing"))
        if problems:
            raise Invalid(problems)
        return make(given)

    return convert


def _dataclass(cls):
    def members() -> list:
        hints = type_hints(cls)
        return [
            (
                field.name,
                converter(hints.get(field.name, typing.Any)),
                field.default is MISSING and field.default_factory is MISSING,
            )
            for field in fields(cls)
            if field.init
        ]

    wrong = fail(f"Input should be a dictionary or an instance of {cls.__name__}", "dataclass_type")

    def make(given: dict):
        try:
            return cls(**given)
        except (ValueError, AssertionError) as error:
            raise fail(f"Value error, {error}", "value_error") from None

    return _object(cls, members, make, wrong)


def _typed_dict(cls):
    required = getattr(cls, "__required_keys__", frozenset())

    def members() -> list:
        found = []
        for name, hint in type_hints(cls).items():
            if getattr(typing.get_origin(hint), "_name", "") in ("Required", "NotRequired"):
                hint = typing.get_args(hint)[0]
            found.append((name, converter(hint), name in required))
        return found

    return _object(dict, members, lambda given: given, fail("Input should be a valid dictionary", "dict_type"))


def _pydantic(cls):
    def convert(value):
        try:
            return cls.model_validate(value, from_attributes=True)
        except ValueError as error:
            found = getattr(error, "errors", None)
            if found is None:
                raise fail(f"Value error, {error}", "value_error") from None
            raise Invalid([(tuple(one["loc"]), one["msg"], one["type"]) for one in found()]) from None

    return convert
