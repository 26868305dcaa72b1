"""What a class of the project looks like as JSON: dataclasses, models, TypedDicts and enums, by their written fields."""

from __future__ import annotations

import _ast as ast

from scan.module import Module
from scan.names import Meaning, Names
from scan.schema import literal, schema_of

_END = (float("inf"), 0)
_CLASSES_MAX = 100
_WITHIN_MAX = 20
_MARKS = ("dataclasses.dataclass", "pydantic.dataclasses.dataclass")
_TYPED_DICTS = ("typing.TypedDict", "typing_extensions.TypedDict")
_ENUMS = ("enum.Enum", "enum.IntEnum", "enum.StrEnum")
_BASES = {
    **dict.fromkeys(_TYPED_DICTS, "typed dict"),
    **dict.fromkeys(_ENUMS, "enum"),
    "pydantic.BaseModel": "model",
}


class Classes:
    """Schemas stand one in the other. A class in itself, and what is beyond the bounds, has its title alone."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._open: list = []
        self._count = 0

    def schema(self, module: Module, annotation) -> dict:
        return schema_of(annotation, lambda node: self._of(self._meaning(module, node)))

    def value(self, module: Module, node):
        """Of a default: a literal, a constant of the project, a member of an enum. None where only Python can tell."""
        meaning = self._names.meaning(module, node) if type(node) in (ast.Name, ast.Attribute) else None
        return literal(meaning.node if meaning is not None and meaning.kind == "expression" else node)

    def _meaning(self, module: Module, node) -> Meaning | None:
        """Annotations are looked up when the module is whole."""
        return self._names.meaning(module, node, _END) if type(node) in (ast.Name, ast.Attribute) else None

    def _of(self, meaning: Meaning | None) -> dict:
        if meaning is None or meaning.kind != "definition" or type(meaning.node) is not ast.ClassDef:
            return {}
        definition = meaning.node
        kind = self._kind(meaning, [])
        if kind == "":
            return {}
        if kind == "enum":
            return _enum(definition)
        self._count += 1
        if definition in self._open or len(self._open) > _WITHIN_MAX or self._count > _CLASSES_MAX:
            return {"type": "object", "title": definition.name}
        self._open.append(definition)
        fields = self._fields(meaning, kind, [])
        self._open.pop()
        properties = {name: schema for name, (schema, _) in fields.items()}
        required = [name for name, (_, is_required) in fields.items() if is_required]
        schema = {"type": "object", "title": definition.name, "properties": properties}
        return {**schema, "required": required} if required else schema

    def _kind(self, meaning: Meaning, seen: list) -> str:
        """"" for a class that only running Python can tell."""
        if any(self._is_mark(meaning.module, each) for each in meaning.node.decorator_list):
            return "dataclass"
        seen = [*seen, meaning.node]
        for base in self._bases(meaning):
            kind = _BASES.get(base.name, "") if base.kind == "outside" else ""
            if base.kind == "definition" and type(base.node) is ast.ClassDef and base.node not in seen:
                kind = self._kind(base, seen)
            if kind != "":
                return kind
        return ""

    def _is_mark(self, module: Module, decorator) -> bool:
        meaning = self._meaning(module, decorator.func if type(decorator) is ast.Call else decorator)
        return meaning is not None and meaning.kind == "outside" and meaning.name in _MARKS

    def _bases(self, meaning: Meaning) -> list[Meaning]:
        found = [self._meaning(meaning.module, base) for base in meaning.node.bases]
        return [each for each in found if each is not None]

    def _fields(self, meaning: Meaning, kind: str, seen: list) -> dict[str, tuple[dict, bool]]:
        """Schema, and whether it must be given. Those of a base come first; a field of the same name takes its place."""
        fields: dict[str, tuple[dict, bool]] = {}
        for base in reversed(self._bases(meaning)):
            if base.kind == "definition" and type(base.node) is ast.ClassDef and base.node not in seen:
                if self._kind(base, []) == kind:
                    fields.update(self._fields(base, kind, [*seen, meaning.node]))
        is_total = all(literal(each.value) is not False for each in meaning.node.keywords if each.arg == "total")
        for statement in meaning.node.body:
            if type(statement) is not ast.AnnAssign or type(statement.target) is not ast.Name:
                continue
            name, mark = statement.target.id, _mark(statement.annotation)
            call = statement.value if _is_field(statement.value) else None
            given = {each.arg: each.value for each in getattr(call, "keywords", ())}
            if mark in ("ClassVar", "InitVar", "KW_ONLY") or literal(given.get("init")) is False:
                continue
            if kind == "model" and (name.startswith("_") or {"alias", "validation_alias"} & given.keys()):
                continue
            default = statement.value if call is None else _default(call, given)
            schema = self.schema(meaning.module, statement.annotation)
            value = None if default is None else self.value(meaning.module, default)
            is_left_out = default is not None or "default_factory" in given
            is_required = mark == "Required" or (is_total and mark != "NotRequired") if kind == "typed dict" else True
            fields[name] = ({**schema, "default": value} if value is not None else schema, is_required and not is_left_out)
        return fields


def _mark(annotation) -> str:
    """The outermost name of an annotation."""
    node = annotation.value if type(annotation) is ast.Subscript else annotation
    if type(node) is ast.Constant and isinstance(node.value, str):
        return node.value.partition("[")[0].rpartition(".")[2].strip()
    return getattr(node, "id", getattr(node, "attr", ""))


def _is_field(value) -> bool:
    return type(value) is ast.Call and getattr(value.func, "id", getattr(value.func, "attr", "")) in ("field", "Field")


def _default(call, given: dict):
    """The first argument of a model's Field(); its `...` stands for none."""
    value = call.args[0] if call.args else given.get("default")
    return None if type(value) is ast.Constant and value.value is ... else value


def _enum(definition) -> dict:
    values = []
    for statement in definition.body:
        targets = statement.targets if type(statement) is ast.Assign else [getattr(statement, "target", None)]
        is_member = type(statement) in (ast.Assign, ast.AnnAssign) and statement.value is not None
        if not is_member or any(type(each) is not ast.Name or each.id.startswith("_") for each in targets):
            continue
        value = literal(statement.value)
        if value is None:
            return {}
        values.append(value)
    kinds = {type(value) for value in values}
    kind = {int: "integer", str: "string"}.get(next(iter(kinds))) if len(kinds) == 1 else None
    return {**({} if kind is None else {"type": kind}), "enum": values, "title": definition.name} if values else {}
