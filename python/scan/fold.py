"""Constant folding: the value of an expression over module-level names, without running anything.

A source can be written to make this endless or huge (`A = B + B`, `B = C + C`, …; 2 ** 9999999; "x" * 10**9), so
depth, steps and sizes are bounded.
"""

from __future__ import annotations

import _ast as ast
import builtins
from math import isfinite

from scan.family import MADE, text_of
from scan.image import image_of
from scan.module import Module
from scan.names import Meaning, Names
from scan.value import Value

_DEPTH_MAX = 60
_STEPS_MAX = 100_000
_SIZE_MAX = 20_000
_REPEAT_MAX = 10_000
#: Numbers beyond what a double holds are of no use in settings.
_BITS_MAX = 1_000
_CHARS_A_PART = 64

_WHY = {
    ast.ListComp: "it is a comprehension",
    ast.DictComp: "it is a comprehension",
    ast.SetComp: "it is a comprehension",
    ast.GeneratorExp: "it is a comprehension",
    ast.Lambda: "it is a lambda",
    ast.Await: "it is awaited",
    ast.Set: "a set has no order",
}
_TOO_LARGE = "it is too large"
_CONDITION = "it depends on a condition"
#: Kinds of values that conditions may be made of.
_PLAIN = ("string", "boolean", "number", "none", "list", "dict")


class _Cannot(Exception):
    """The value cannot be known; the text says why."""


class Folder:
    def __init__(self, names: Names) -> None:
        self._names = names
        self._steps = 0

    def fold(self, module: Module, node) -> Value:
        self._steps = 0
        return self._fold(module, node, 0)

    def _fold(self, module: Module, node, depth: int) -> Value:
        self._steps += 1
        place = module.place(node)
        try:
            if depth > _DEPTH_MAX:
                raise _Cannot("it is defined by itself or nested too deeply")
            if self._steps > _STEPS_MAX:
                raise _Cannot("it takes too long to work out")
            value = self._value(module, node, place, depth)
        except _Cannot as why:
            return Value("unknown", str(why), place)
        return value if value.size <= _SIZE_MAX else Value("unknown", _TOO_LARGE, place)

    def _value(self, module: Module, node, place, depth: int) -> Value:
        kind = type(node)
        if kind is ast.Constant:
            return _constant(node.value, place)
        if kind is ast.JoinedStr:
            return _text("".join(self._shown(module, part, depth) for part in node.values), place)
        if kind is ast.List or kind is ast.Tuple:
            return self._list(module, node, place, depth)
        if kind is ast.Dict:
            return self._dict(module, node, place, depth)
        if kind is ast.IfExp:
            chosen = node.body if self._holds(module, node.test, depth) else node.orelse
            return self._fold(module, chosen, depth + 1).at(place)
        if kind is ast.BoolOp:
            return self._either(module, node, depth).at(place)
        if kind is ast.Compare:
            return self._compare(module, node, place, depth)
        if kind is ast.UnaryOp and type(node.op) is ast.Not:
            return Value("boolean", not self._holds(module, node.operand, depth), place)
        if kind is ast.UnaryOp and type(node.op) in (ast.USub, ast.UAdd, ast.Invert):
            value = self._fold(module, node.operand, depth + 1)
            if value.kind != "number" or type(node.op) not in (ast.USub, ast.UAdd):
                raise _Cannot("it is computed")
            return Value("number", -value.data if type(node.op) is ast.USub else value.data, place)
        if kind is ast.BinOp:
            left, right = self._fold(module, node.left, depth + 1), self._fold(module, node.right, depth + 1)
            return _operate(left, type(node.op), right, place)
        if kind is ast.Name or kind is ast.Attribute:
            return self._meant(self._names.meaning(module, node), node, place, depth + 1).at(place)
        if kind is ast.Subscript:
            return self._subscript(module, node, place, depth).at(place)
        if kind is ast.Call:
            return self._call(module, node, place, depth)
        if kind.__name__ == "TemplateStr":
            raise _Cannot("it is a template, not text")
        raise _Cannot(_WHY.get(kind, "it is computed"))

    def _holds(self, module: Module, node, depth: int) -> bool:
        """Whether a condition is true. What the machine of the build has set decides nothing."""
        return self._is_true(module, node, self._fold(module, node, depth + 1))

    def _is_true(self, module: Module, node, value: Value) -> bool:
        if value.kind in _PLAIN:
            return bool(value.data)
        raise _Cannot(self._open(module, node, value))

    def _either(self, module: Module, node, depth: int) -> Value:
        """`a or b`, `a and b`."""
        *first, last = node.values
        for part in first:
            value = self._fold(module, part, depth + 1)
            if self._is_true(module, part, value) is (type(node.op) is ast.Or):
                return value
        return self._fold(module, last, depth + 1)

    def _compare(self, module: Module, node, place, depth: int) -> Value:
        left = node.left
        for operator, right in zip(node.ops, node.comparators):
            values = []
            for side in (left, right):
                value = self._fold(module, side, depth + 1)
                if value.kind not in _PLAIN:
                    raise _Cannot(self._open(module, side, value))
                values.append(value.plain())
            if not _compared(values[0], type(operator), values[1]):
                return Value("boolean", False, place)
            left = right
        return Value("boolean", True, place)

    def _open(self, module: Module, node, value: Value) -> str:
        """Why a condition is not decided."""
        why = f"{module.source(node)[:60]} is no plain value"
        if value.kind == "unknown":
            why = value.data
        elif value.kind == "environment":
            why = f"variables of the machine that builds, such as {value.data[0]}, decide nothing"
        return why if why.startswith(_CONDITION) else f"{_CONDITION}, and {why}"

    def _shown(self, module: Module, part, depth: int) -> str:
        """A part of an f-string."""
        if type(part) is ast.Constant:
            return str(part.value)
        if part.conversion != -1 or part.format_spec is not None:
            raise _Cannot("it formats a value with ! or :")
        value = self._fold(module, part.value, depth + 1)
        if value.kind in ("string", "boolean", "number", "none"):
            return str(value.data)
        raise _Cannot(value.data if value.kind == "unknown" else "the f-string holds a value that is not plain text")

    def _list(self, module: Module, node, place, depth: int) -> Value:
        items: list[Value] = []
        for part in node.elts:
            if type(part) is not ast.Starred:
                items.append(self._fold(module, part, depth + 1))
                continue
            spread = self._fold(module, part.value, depth + 1)
            if spread.kind == "list":
                items.extend(spread.data)
            else:
                why = _why_not(spread, "only a list or tuple can follow *")
                items.append(Value("unknown", why, module.place(part)))
        return _list_of(items, type(node) is ast.Tuple, place)

    def _dict(self, module: Module, node, place, depth: int) -> Value:
        entries: list[tuple[Value, Value]] = []
        for key, value in zip(node.keys, node.values):
            folded = self._fold(module, value, depth + 1)
            if key is not None:
                entries.append((self._fold(module, key, depth + 1), folded))
            elif folded.kind == "dict":
                entries.extend(folded.data)
            else:
                return Value("unknown", _why_not(folded, "only a dict can follow **"), module.place(value))
        return _dict_of(entries, place)

    def _meant(self, meaning: Meaning, node, place, depth: int) -> Value:
        kind = meaning.kind
        if kind == "svc":
            family, member, *rest = (*meaning.path, "", "")[: max(2, len(meaning.path))]
            # GpuType.X.value and .name are the same GPU.
            if family in ("GpuType", "GpuGroup") and member and rest[:1] in ([], ["value"], ["name"]):
                return Value("gpu", (family, member), place)
            text = text_of(family, member) if rest[:1] in ([], ["value"]) else None
            if text is not None:
                return _text(text, place)
            raise _Cannot(f"svc.{'.'.join(meaning.path)} is not a constant")
        if kind == "expression":
            if meaning.node is node:
                raise _Cannot("it is an attribute of an object")
            return self._fold(meaning.module, meaning.node, depth + 1)
        if kind == "added":
            if depth > _DEPTH_MAX:
                raise _Cannot("it is defined by itself or nested too deeply")
            before = self._meant(meaning.before, node, place, depth + 1)
            return _operate(before, ast.Add, self._fold(meaning.module, meaning.node, depth + 1), place)
        if kind == "outside":
            raise _Cannot(f"{meaning.name} is outside the project")
        if kind == "module":
            raise _Cannot(f"{meaning.name} is a module")
        raise _Cannot("it is a function or a class" if kind == "definition" else meaning.why)

    def _subscript(self, module: Module, node, place, depth: int) -> Value:
        if type(node.slice) is ast.Slice:
            raise _Cannot("it is computed")
        key = self._fold(module, node.slice, depth + 1)
        if self._is_outside(module, node.value, "os.environ"):
            if key.kind != "string":
                raise _Cannot("the variable's name is computed")
            return Value("environment", (key.data, None), place)
        container = self._fold(module, node.value, depth + 1)
        if container.kind == "unknown":
            return container
        if container.kind == "list" and key.kind == "number":
            try:
                item: Value = container.data[key.data]
                return item
            except (IndexError, TypeError):
                raise _Cannot("the index is outside the list") from None
        if container.kind == "dict" and key.kind == "string":
            entries: list[tuple[Value, Value]] = container.data
            for name, value in reversed(entries):
                if name.kind == "string" and name.data == key.data:
                    return value
            raise _Cannot(f'the dict has no key "{key.data}"')
        raise _Cannot("it is computed")

    def _call(self, module: Module, node, place, depth: int) -> Value:
        given = node.args
        if any(self._is_outside(module, node.func, name) for name in ("os.environ.get", "os.getenv")) and given:
            name = self._fold(module, given[0], depth + 1)
            fallback = self._fold(module, given[1], depth + 1) if len(given) > 1 else None
            if name.kind == "string":
                return Value("environment", (name.data, fallback), place, size=1 + (fallback.size if fallback else 0))
        meaning = self._names.meaning(module, node.func)
        if meaning.kind == "svc" and meaning.path == ("Secret",):
            values = [*given, *(keyword.value for keyword in node.keywords)]
            if len(values) == 1:
                name = self._fold(module, values[0], depth + 1)
                if name.kind == "string":
                    return Value("secret", name.data, place)
            raise _Cannot('Secret takes one text, as in Secret("NAME")')
        if meaning.kind == "svc" and len(meaning.path) == 1 and meaning.path[0] in MADE:
            arguments: list[tuple[str | None, Value]] = [(None, self._fold(module, each, depth + 1)) for each in given]
            for each in node.keywords:
                fold = self._exceptions if each.arg == "on" else self._fold
                arguments.append((each.arg or "**", fold(module, each.value, depth + 1)))
            size = 1 + sum(value.size for _, value in arguments)
            return Value("made", (meaning.path[0], arguments), place, size=size)
        image = image_of(lambda each: self._fold(module, each, depth + 1), meaning, module, node, place)
        if image is not None:
            return image
        builtin = node.func.id if type(node.func) is ast.Name else ""
        if builtin in ("list", "tuple") and len(given) == 1 and not node.keywords:
            value = self._fold(module, given[0], depth + 1)
            if value.kind == "list":
                return _list_of(value.data, builtin == "tuple", place)
        if builtin == "dict" and not given and all(keyword.arg is not None for keyword in node.keywords):
            entries = []
            for keyword in node.keywords:
                column = keyword.col_offset + len(keyword.arg.encode())
                name_place = module.span(keyword.lineno, keyword.col_offset, keyword.lineno, column)
                entries.append((_text(keyword.arg, name_place), self._fold(module, keyword.value, depth + 1)))
            return _dict_of(entries, place)
        raise _Cannot(f"it is the result of a call of {module.source(node.func)[:60]}()")

    def _exceptions(self, module: Module, node, depth: int) -> Value:
        """What `on=` of Retries names: classes are not looked into, a worker knows them."""
        place = module.place(node)
        if type(node) in (ast.Tuple, ast.List):
            return _list_of([self._exceptions(module, each, depth + 1) for each in node.elts], True, place)
        if type(node) in (ast.Name, ast.Attribute):
            meaning = self._names.meaning(module, node)
            if meaning.kind == "expression" and meaning.node is not node:
                return self._exceptions(meaning.module, meaning.node, depth + 1) if depth < _DEPTH_MAX else self._fold(module, node, depth)
            if meaning.kind == "definition" and type(meaning.node) is ast.ClassDef:
                return Value("class", f"{meaning.module.name}.{meaning.node.name}", place)
            name = meaning.name if meaning.kind == "outside" else getattr(node, "id", "")
            known = getattr(builtins, name, None)
            if meaning.kind == "outside" or (isinstance(known, type) and issubclass(known, BaseException)):
                return Value("class", name, place)
        return self._fold(module, node, depth + 1)

    def _is_outside(self, module: Module, node, name: str) -> bool:
        meaning = self._names.meaning(module, node)
        return meaning.kind == "outside" and meaning.name == name


def _constant(value, place) -> Value:
    if value is None:
        return Value("none", None, place)
    if isinstance(value, bool):
        return Value("boolean", value, place)
    if isinstance(value, str):
        return _text(value, place)
    if isinstance(value, (int, float)):
        return _number(value, place, "it is not a plain number")
    if isinstance(value, bytes):
        raise _Cannot("it is bytes, not text")
    raise _Cannot("it is not a plain number" if isinstance(value, complex) else "it is computed")


def _text(value: str, place) -> Value:
    return Value("string", value, place, size=1 + len(value) // _CHARS_A_PART)


def _number(value: int | float, place, why: str = "it is computed") -> Value:
    if isinstance(value, int) and value.bit_length() > _BITS_MAX:
        raise _Cannot(why)
    if isinstance(value, float) and not isfinite(value):
        raise _Cannot(why)
    return Value("number", value, place)


def _list_of(items: list[Value], is_tuple: bool, place) -> Value:
    return Value("list", items, place, is_tuple, 1 + sum(item.size for item in items))


def _dict_of(entries: list[tuple[Value, Value]], place) -> Value:
    return Value("dict", entries, place, size=1 + sum(key.size + value.size for key, value in entries))


def _why_not(value: Value, otherwise: str) -> str:
    return value.data if value.kind == "unknown" else otherwise


def _operate(left: Value, operator: type, right: Value, place) -> Value:
    for side in (left, right):
        if side.kind == "unknown":
            raise _Cannot(side.data)
    if left.size + right.size > _SIZE_MAX:
        raise _Cannot(_TOO_LARGE)
    if left.kind == "number" and right.kind == "number":
        return _number(_calculate(left.data, operator, right.data), place)
    if operator is ast.Add and left.kind == right.kind == "string":
        return _text(left.data + right.data, place)
    if operator is ast.Add and left.kind == right.kind == "list" and left.extra == right.extra:
        return _list_of([*left.data, *right.data], left.extra, place)
    if operator is ast.BitOr and left.kind == right.kind == "dict":
        return _dict_of([*left.data, *right.data], place)
    if operator is ast.Mult and right.kind == "number" and isinstance(right.data, int):
        times = max(0, right.data)
        if left.kind in ("string", "list") and times * len(left.data) <= _REPEAT_MAX:
            if left.kind == "string":
                return _text(left.data * times, place)
            if times * left.size <= _SIZE_MAX:
                return _list_of(left.data * times, left.extra, place)
    raise _Cannot("it is computed")


def _compared(left, operator: type, right) -> bool:
    try:
        if operator in (ast.Eq, ast.NotEq):
            return bool((left == right) is (operator is ast.Eq))
        if operator in (ast.Is, ast.IsNot) and None in (left, right):
            return (left is right) is (operator is ast.Is)
        if operator in (ast.In, ast.NotIn):
            return (left in right) is (operator is ast.In)
        if operator in (ast.Lt, ast.LtE):
            return bool(left < right or (operator is ast.LtE and left == right))
        if operator in (ast.Gt, ast.GtE):
            return bool(left > right or (operator is ast.GtE and left == right))
    except TypeError:
        pass
    raise _Cannot(f"{_CONDITION} that only Python can decide")


def _calculate(left, operator: type, right):
    try:
        if operator is ast.Add:
            return left + right
        if operator is ast.Sub:
            return left - right
        if operator is ast.Mult:
            return left * right
        if operator is ast.Div:
            return left / right
        if operator is ast.FloorDiv:
            return left // right
        if operator is ast.Mod:
            return left % right
        if operator is ast.Pow and (isinstance(left, float) or abs(right) * left.bit_length() <= _BITS_MAX):
            result = left**right
            if not isinstance(result, complex):
                return result
    except (ArithmeticError, ValueError):
        pass
    raise _Cannot("it is computed")
