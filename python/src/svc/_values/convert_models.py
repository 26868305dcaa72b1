"""Converters for classes with named fields: dataclasses, TypedDicts, pydantic models."""

from __future__ import annotations

import typing
from dataclasses import MISSING, fields

from svc._values.convert import Invalid, converter, fail
from svc._values.type_hints import type_hints


def _object(cls, members: list, make, not_a_dict: Invalid):
    """Members are (name, converter, required)."""

    def convert(value):
        if isinstance(value, cls) and cls is not dict:
            return value
        if not isinstance(value, dict):
            raise not_a_dict
        given, problems = {}, []
        for name, member, required in members:
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


def dataclass_converter(cls):
    hints = type_hints(cls)
    members = [
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


def typed_dict_converter(cls):
    hints = type_hints(cls)
    required = getattr(cls, "__required_keys__", frozenset())
    members = []
    for name, hint in hints.items():
        if getattr(typing.get_origin(hint), "_name", "") in ("Required", "NotRequired"):
            hint = typing.get_args(hint)[0]
        members.append((name, converter(hint), name in required))
    return _object(dict, members, lambda given: given, fail("Input should be a valid dictionary", "dict_type"))


def pydantic_converter(cls):
    def convert(value):
        try:
            return cls.model_validate(value, from_attributes=True)
        except ValueError as error:
            found = getattr(error, "errors", None)
            if found is None:
                raise fail(f"Value error, {error}", "value_error") from None
            raise Invalid([(tuple(one["loc"]), one["msg"], one["type"]) for one in found()]) from None

    return convert
