"""Annotations of a function or class with their names resolved."""

from __future__ import annotations

import typing
from collections.abc import AsyncIterator, Iterator


def type_hints(annotated) -> dict:
    """Annotations with names resolved; one that cannot be resolved is Any."""
    try:
        return typing.get_type_hints(annotated)
    except Exception:
        scope = getattr(annotated, "__globals__", {})
        found = {}
        for name, hint in getattr(annotated, "__annotations__", {}).items():
            if isinstance(hint, str):
                try:
                    hint = eval(hint, scope)
                except Exception:
                    hint = typing.Any
            found[name] = hint
        return found


def is_typed_dict(cls) -> bool:
    """Also one of `typing_extensions`, which older Pythons need."""
    return typing.is_typeddict(cls) or (isinstance(cls, type) and hasattr(cls, "__required_keys__"))


def reads_upload(hint) -> bool:
    """`Iterator[bytes]`, or `AsyncIterator[bytes]` of an async function."""
    return typing.get_origin(hint) in (AsyncIterator, Iterator) and typing.get_args(hint) == (bytes,)
