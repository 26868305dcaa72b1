"""Arguments of a job as the function's annotations want them: the conversions of routes, made once for a function.

A parameter of type str, int, float, bool, dict or list costs one look at the argument's class, one without an
annotation nothing.
"""

from __future__ import annotations

import sys

from svc._values.failure import BadInput
from svc._values.signature import EMPTY, Signature

_PLAIN = (str, int, float, bool, dict, list)

_members: dict = {}
"""Of each function: a zygote makes them, so that its forks find them."""


class Conversion:
    """Converts arguments in place."""

    __slots__ = ("_members", "_signature")

    def __init__(self, signature: Signature, members: list[tuple]) -> None:
        self._signature = signature
        self._members = members

    def convert(self, given: dict) -> None:
        """Raises BadInput naming every argument that does not fit."""
        problems: list[str] = []
        for name, kind, member in self._members:
            if name in given and given[name].__class__ is not kind:
                given[name] = member.convert(given[name], problems)
        if problems:
            raise BadInput(f"{'; '.join(problems)}; the function is {self._signature}")


class _Member:
    """One parameter; a plain one gets its converter when the first value does not fit."""

    __slots__ = ("_converter", "_kind", "_name", "_takes_none")

    def __init__(self, name: str, kind, converter, takes_none: bool) -> None:
        self._name = name
        self._kind = kind
        self._converter = converter
        self._takes_none = takes_none

    def convert(self, value, problems: list[str]):
        if value is None and self._takes_none:
            return None
        from svc._values.scalars import Invalid

        if self._converter is None:
            from svc._values.convert import converter

            self._converter = converter(self._kind)
        try:
            return self._converter(value)
        except Invalid as error:
            problems += [f"{self._name}{_place(below)}: {message}" for below, message, _ in error.problems]
            return value


def conversion(signature: Signature) -> Conversion | None:
    """None where every argument stays as it came."""
    function = signature.function
    found = _members.get(function)
    if found is None:
        found = _members[function] = _members_of(signature)
    return Conversion(signature, found) if found else None


def _members_of(signature: Signature) -> list[tuple]:
    """(name, the class that fits as it is, member) of each parameter that wants something."""
    members = []
    hints = None
    scope = getattr(signature.function, "__globals__", {})
    for parameter in signature.parameters:
        annotation = _resolved(parameter.annotation, scope)
        if annotation is EMPTY or _is_any(annotation):
            continue
        kind = _plain_kind(annotation)
        convert = None
        if kind is None:
            from svc._values.convert import converter
            from svc._values.type_hints import type_hints

            hints = type_hints(signature.function) if hints is None else hints
            convert = converter(hints.get(parameter.name, annotation))
            if convert is None:
                continue
        name = parameter.name
        members.append((name, kind, _Member(name, kind, convert, parameter.default is None)))
    return members


def _resolved(annotation, scope: dict):
    """What a text stands for; the text itself where that cannot be told."""
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, scope)
    except Exception:
        return annotation


def _is_any(annotation) -> bool:
    typing = sys.modules.get("typing")
    return annotation is object or (typing is not None and annotation is typing.Any)


def _plain_kind(annotation):
    """The class that JSON itself gives; None for an annotation that needs a converter."""
    if annotation in _PLAIN:
        return annotation
    kind = getattr(annotation, "__origin__", None)
    inner = getattr(annotation, "__args__", ())
    if kind is dict and len(inner) == 2 and inner[0] is str and _is_any(inner[1]):
        return dict
    return list if kind is list and len(inner) == 1 and _is_any(inner[0]) else None


def _place(below: tuple) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in below)
