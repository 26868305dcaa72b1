"""JSON Schema of an annotation as it is written, and the value of a literal.

The worker makes the same of the annotation itself (svc/_values/json_schema.py). Classes of the user's own: classes.py.
"""

from __future__ import annotations

import _ast as ast
from math import isfinite

_DEPTH_MAX = 40
_BITS_MAX = 1_000
_BINARY = {"type": "string", "format": "binary"}
_SCALARS: dict[str, dict] = {
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "str": {"type": "string"},
    "bytes": _BINARY,
    "bytearray": _BINARY,
    "File": _BINARY,
    "datetime": {"type": "string", "format": "date-time"},
    "date": {"type": "string", "format": "date"},
    "time": {"type": "string", "format": "time"},
    "timedelta": {"type": "string", "format": "duration"},
    "UUID": {"type": "string", "format": "uuid"},
    "Decimal": {"anyOf": [{"type": "number"}, {"type": "string"}]},
}
_LISTS = ("list", "List", "tuple", "Tuple", "set", "Set", "frozenset", "FrozenSet", "Sequence", "Iterable")
_DICTS = ("dict", "Dict", "Mapping")


def schema_of(annotation, class_schema, depth: int = 0) -> dict:
    """`{}`, any value, for no annotation and for one that only Python can tell. `class_schema(node)` knows other names."""
    kind = type(annotation)
    if depth > _DEPTH_MAX or annotation is None:
        return {}
    if kind is ast.Constant:
        if annotation.value is None:
            return {"type": "null"}
        return schema_of(_parsed(annotation.value), class_schema, depth + 1) if isinstance(annotation.value, str) else {}
    if kind is ast.BinOp and type(annotation.op) is ast.BitOr:
        return _union([annotation.left, annotation.right], class_schema, depth)
    given: list = []
    if kind is ast.Subscript:
        given = list(annotation.slice.elts) if type(annotation.slice) is ast.Tuple else [annotation.slice]
        annotation = annotation.value
    name = annotation.id if type(annotation) is ast.Name else getattr(annotation, "attr", "")
    if name == "Annotated":
        return schema_of(given[0], class_schema, depth + 1) if given else {}
    if name == "Optional":
        return _union([*given, ast.Constant(None)], class_schema, depth)
    if name == "Union":
        return _union(given, class_schema, depth)
    if name == "Literal":
        return {"enum": [literal(each) for each in given]}
    if name in ("Required", "NotRequired", "ReadOnly"):
        return schema_of(given[0], class_schema, depth + 1) if given else {}
    if name in _LISTS:
        return _list(name.lower(), given, class_schema, depth)
    if name in _DICTS:
        values = given[1] if len(given) > 1 else None
        is_any = values is None or "Any" in (getattr(values, "id", ""), getattr(values, "attr", ""))
        if is_any:
            return {"type": "object"}
        return {"type": "object", "additionalProperties": schema_of(values, class_schema, depth + 1)}
    known = _SCALARS.get(name)
    return class_schema(annotation) if known is None else dict(known)


def _parsed(text: str):
    """An annotation written as text."""
    try:
        tree = compile(text.strip(), "", "eval", ast.PyCF_ONLY_AST, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return getattr(tree, "body", None)


def _union(members: list, class_schema, depth: int) -> dict:
    """A union in a union is one; a member that comes twice counts once."""
    schemas: list[dict] = []
    for member in members:
        schema = schema_of(member, class_schema, depth + 1)
        name = getattr(member, "value", None) if type(member) is ast.Subscript else member
        within = type(member) is ast.BinOp or getattr(name, "id", getattr(name, "attr", "")) in ("Optional", "Union")
        for each in schema["anyOf"] if within and "anyOf" in schema else [schema]:
            if each not in schemas:
                schemas.append(each)
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _list(kind: str, given: list, class_schema, depth: int) -> dict:
    is_open = not given or (type(given[-1]) is ast.Constant and given[-1].value is ...)
    if kind == "tuple" and not is_open:
        items = [schema_of(each, class_schema, depth + 1) for each in given]
        return {"type": "array", "prefixItems": items, "minItems": len(given), "maxItems": len(given)}
    schema: dict = {"type": "array", "items": schema_of(given[0], class_schema, depth + 1) if given else {}}
    return {**schema, "uniqueItems": True} if kind.endswith("set") else schema


def literal(node, depth: int = 0):
    """What a literal stands for, as JSON: a tuple is a list. None for what is no literal."""
    try:
        return _literal(node, depth)
    except ValueError:
        return None


def _literal(node, depth: int):
    kind = type(node)
    if depth > _DEPTH_MAX:
        raise ValueError
    if kind is ast.Constant:
        value = node.value
        if value is None or isinstance(value, (str, bool)):
            return value
        if isinstance(value, int) and value.bit_length() <= _BITS_MAX:
            return value
        if isinstance(value, float) and isfinite(value):
            return value
    elif kind is ast.UnaryOp and type(node.op) in (ast.USub, ast.UAdd):
        value = _literal(node.operand, depth + 1)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return -value if type(node.op) is ast.USub else value
    elif kind is ast.List or kind is ast.Tuple:
        return [_literal(each, depth + 1) for each in node.elts]
    elif kind is ast.Dict:
        pairs = [(_literal(key, depth + 1), _literal(value, depth + 1)) for key, value in zip(node.keys, node.values)]
        if all(isinstance(key, str) for key, _ in pairs):
            return dict(pairs)
    raise ValueError
