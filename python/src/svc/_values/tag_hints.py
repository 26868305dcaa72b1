"""What an annotation says about the parts of a value: the classes that tagged enums and objects are rebuilt as.

A hint is a tuple of alternatives: `Point | None` is (Point,). Only classes that stand in the annotation count.
"""

from __future__ import annotations

import collections.abc
import types
import typing
from enum import Enum

from svc._values.type_hints import is_typed_dict, type_hints

_MAPPINGS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


def alternatives(annotation) -> tuple:
    """The annotations that one annotation stands for: the members of a union, what is Annotated, a NewType's base."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return alternatives(typing.get_args(annotation)[0])
    if origin is typing.Union or origin is types.UnionType:
        return tuple(one for member in typing.get_args(annotation) for one in alternatives(member))
    if hasattr(annotation, "__supertype__"):
        return alternatives(annotation.__supertype__)
    if annotation in (typing.Any, object, None, type(None)) or isinstance(annotation, (str, typing.TypeVar)):
        return ()
    return (annotation,)


def inner(hints: tuple, what: str, key) -> tuple:
    """Alternatives of the parts: "items" of lists and sets, the "place" of a tuple, "keys" or "values" of dicts and
    objects."""
    return tuple(one for hint in hints for one in _inner_of(hint, what, key))


def _inner_of(hint, what: str, key) -> tuple:
    origin = typing.get_origin(hint)
    arguments = typing.get_args(hint)
    if origin in _MAPPINGS:
        if what in ("keys", "values") and len(arguments) == 2:
            return alternatives(arguments[what == "values"])
        return ()
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return alternatives(arguments[0])
        if what == "place" and key < len(arguments):
            return alternatives(arguments[key])
        return ()
    if origin is not None and arguments and what in ("items", "place"):
        return alternatives(arguments[0])
    if what == "values" and isinstance(hint, type) and (_is_object(hint) or is_typed_dict(hint)):
        annotation = type_hints(hint).get(key)
        if getattr(typing.get_origin(annotation), "_name", "") in ("Required", "NotRequired"):
            annotation = typing.get_args(annotation)[0]
        return alternatives(annotation)
    return ()


def _is_object(cls) -> bool:
    return hasattr(cls, "__dataclass_fields__") or hasattr(cls, "__pydantic_validator__")


def find_class(hints: tuple, name: str, kind: str):
    """The class of the annotation that has this name, else its only one of this kind; None without any."""
    classes = [hint if isinstance(hint, type) else typing.get_origin(hint) for hint in hints]
    if kind == "enum":
        found = [cls for cls in classes if isinstance(cls, type) and issubclass(cls, Enum)]
    else:
        found = [cls for cls in classes if isinstance(cls, type) and _is_object(cls)]
    for cls in found:
        if cls.__qualname__ == name:
            return cls
    return found[0] if len(found) == 1 else None


def build(cls, fields: dict):
    """An instance of a dataclass or a model. Raises ValueError or TypeError."""
    if hasattr(cls, "__pydantic_validator__"):
        return cls.model_validate(fields)
    known = cls.__dataclass_fields__
    value = cls(**{name: item for name, item in fields.items() if name not in known or known[name].init})
    for name, item in fields.items():
        if name in known and not known[name].init:
            object.__setattr__(value, name, item)
    return value
