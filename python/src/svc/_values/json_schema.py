"""JSON Schema of annotations."""

from __future__ import annotations

import collections.abc
import enum
import types
import typing
from dataclasses import MISSING, fields, is_dataclass
from math import isfinite

from svc._values.signature import EMPTY
from svc._values.type_hints import is_typed_dict, type_hints

_SCALARS = {
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    str: {"type": "string"},
    type(None): {"type": "null"},
    None: {"type": "null"},
}
_FORMATS = {"datetime": "date-time", "date": "date", "time": "time", "UUID": "uuid", "timedelta": "duration"}
_LISTS = (list, set, frozenset, tuple, collections.abc.Sequence, collections.abc.Iterable)
_DICTS = (dict, collections.abc.Mapping)


class Schemas:
    """Schemas of annotations; classes with fields go to `definitions` once and are referred to."""

    def __init__(self) -> None:
        self.definitions: dict[str, dict] = {}
        self._names: dict[type, str] = {}

    def of(self, annotation) -> dict:
        if annotation is EMPTY or annotation is typing.Any or annotation is object or isinstance(annotation, str):
            return {}
        try:
            known = _SCALARS.get(annotation)
        except TypeError:
            known = None
        if known is not None:
            return dict(known)
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if origin is typing.Annotated:
            return self.of(arguments[0])
        if origin is typing.Union or origin is types.UnionType:
            return {"anyOf": [self.of(member) for member in arguments]}
        if origin is typing.Literal:
            return {"enum": list(arguments)}
        if origin in _LISTS or annotation in _LISTS:
            return self._list(origin or annotation, arguments)
        if origin in _DICTS or annotation in _DICTS:
            schema: dict = {"type": "object"}
            if len(arguments) == 2 and arguments[1] is not typing.Any:
                schema["additionalProperties"] = self.of(arguments[1])
            return schema
        return self._class(annotation) if isinstance(annotation, type) else {}

    def returned(self, function) -> dict | None:
        """The content of a 200, as far as the return annotation tells; None when there is none."""
        hint = type_hints(function).get("return", EMPTY)
        if hint is EMPTY or getattr(hint, "__module__", "").startswith("svc."):
            return None
        if hint is bytes:
            return {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
        origin = typing.get_origin(hint)
        if origin in (collections.abc.Iterator, collections.abc.AsyncIterator, collections.abc.Generator,
                      collections.abc.AsyncGenerator):  # fmt: skip
            return {"text/event-stream": {"schema": {"type": "string"}}}
        if origin is tuple:  # (body, status) and (body, status, headers)
            return None
        return {"application/json": {"schema": self.of(hint)}}

    def _list(self, kind, arguments: tuple) -> dict:
        if kind is tuple and arguments and arguments[-1] is not Ellipsis:
            size = len(arguments)
            items = [self.of(argument) for argument in arguments]
            return {"type": "array", "prefixItems": items, "minItems": size, "maxItems": size}
        schema: dict = {"type": "array", "items": self.of(arguments[0]) if arguments else {}}
        if kind in (set, frozenset):
            schema["uniqueItems"] = True
        return schema

    def _class(self, cls: type) -> dict:
        if hasattr(cls, "model_json_schema"):
            return self._model(cls)
        if issubclass(cls, enum.Enum) or is_dataclass(cls) or is_typed_dict(cls):
            return self._defined(cls)
        if issubclass(cls, (bytes, bytearray)):
            return {"type": "string", "format": "binary"}
        if cls.__name__ in _FORMATS and cls.__module__ in ("datetime", "uuid"):
            return {"type": "string", "format": _FORMATS[cls.__name__]}
        for base, schema in ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string")):
            if issubclass(cls, base):
                return {"type": schema}
        if cls.__module__ == "decimal":
            return {"anyOf": [{"type": "number"}, {"type": "string"}]}
        return {}

    def _defined(self, cls: type) -> dict:
        name = self._names.get(cls)
        if name is None:
            name = cls.__name__ if cls.__name__ not in self.definitions else f"{cls.__module__}.{cls.__qualname__}"
            self._names[cls] = name
            self.definitions[name] = {}  # a class may refer to itself
            self.definitions[name] = self._describe(cls)
        return {"$ref": f"#/components/schemas/{name}"}

    def _describe(self, cls: type) -> dict:
        if issubclass(cls, enum.Enum):
            values = [member.value for member in cls]
            kinds = {int: "integer", str: "string"}
            kind = kinds.get(type(values[0])) if len({type(value) for value in values}) == 1 else None
            return {**({"type": kind} if kind else {}), "enum": values, "title": cls.__name__}
        hints = type_hints(cls)
        defaults: dict = {}
        if is_dataclass(cls):
            members = [field for field in fields(cls) if field.init]
            defaults = {field.name: field.default for field in members if _is_shown(field.default)}
            required = [f.name for f in members if f.default is MISSING and f.default_factory is MISSING]
            hints = {field.name: hints.get(field.name, EMPTY) for field in members}
        else:
            required = sorted(getattr(cls, "__required_keys__", ()))
        properties = {name: self.of(_plain(hint)) for name, hint in hints.items()}
        for name, default in defaults.items():
            properties[name] = {**properties[name], "default": default}
        schema = {"type": "object", "title": cls.__name__, "properties": properties}
        return {**schema, "required": required} if required else schema

    def _model(self, cls: type) -> dict:
        """A pydantic model describes itself."""
        schema = cls.model_json_schema(ref_template="#/components/schemas/{model}")
        self.definitions.update(schema.pop("$defs", {}))
        self.definitions[cls.__name__] = schema
        return {"$ref": f"#/components/schemas/{cls.__name__}"}


def _is_shown(default) -> bool:
    """JSON can say it."""
    return type(default) in (str, int, bool) or (type(default) is float and isfinite(default))


def _plain(hint):
    """Without the Required and NotRequired of a TypedDict."""
    if getattr(typing.get_origin(hint), "_name", "") in ("Required", "NotRequired"):
        return typing.get_args(hint)[0]
    return hint
