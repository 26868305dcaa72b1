"""What the manifest says about a decorated function or class."""

from __future__ import annotations

import _ast as ast

from scan.classes import Classes
from scan.module import FUNCTIONS, Module, children
from scan.names import Names

_NESTED = (*FUNCTIONS, ast.ClassDef, ast.Lambda)


def describe(names: Names, module: Module, definition, is_mark, is_server: bool, batch_size) -> dict:
    """`is_mark` says of a decorator whether it makes of a method one that jobs cannot call, `batch_size` how many inputs a
    call of a function takes at once: 0 for one that is not batched."""
    if type(definition) in FUNCTIONS:
        size = batch_size(definition)
        return {
            **_common(module, definition),
            **({"batchSize": size} if size else {}),
            "kind": "function",
            "async": is_async(definition),
            "generator": is_generator(definition),
            "parameters": _parameters(names, module, definition, size > 0),
            "methods": [],
            "returns": _returns(names, module, definition, size > 0),
        }
    if type(definition) is ast.ClassDef:
        functions = [each for each in definition.body if type(each) in FUNCTIONS and _is_public(module, each)]
        methods = [each for each in functions if not any(is_mark(mark) for mark in getattr(each, "decorator_list", ()))]
        own = [each for each in definition.body if getattr(each, "name", "") == "__call__" and type(each) in FUNCTIONS]
        called = [(str(getattr(each, "name", "")), each, batch_size(each)) for each in [*methods, *own]]
        parameters = {
            name: _parameters(names, module, each, size > 0)[is_bound(module, each) :] for name, each, size in called
        }
        returns = {name: _returns(names, module, each, size > 0) for name, each, size in called}
        largest = max((size for _, _, size in called), default=0)
        return {
            **_common(module, definition),
            "kind": "class",
            **({"batchSize": largest} if largest else {}),
            "async": any(is_async(each) for each in methods),
            "generator": any(is_generator(each) for each in methods),
            "parameters": _of_unnamed_call(parameters) or [],
            "methods": [str(getattr(each, "name", "")) for each in methods],
            "methodParameters": parameters,
            "returns": _of_unnamed_call(returns) or {},
            "methodReturns": returns,
        }
    # The argument of `.asgi(app)`, or an Endpoint with a command: nobody can tell from outside what these take.
    name = definition.id if type(definition) is ast.Name else "server" if is_server else "asgi"
    return {
        "name": name,
        "module": module.name,
        "doc": "",
        "kind": "function",
        "async": True,
        "generator": False,
        "parameters": [],
        "methods": [],
    }


def _of_unnamed_call(by_method: dict):
    """What a job that names no method reaches: `__call__`, or the only one there is."""
    if "__call__" in by_method:
        return by_method["__call__"]
    return next(iter(by_method.values())) if len(by_method) == 1 else None


def _returns(names: Names, module: Module, definition, batched: bool) -> dict:
    """Schema of the result; a generator's is the list of what it yields."""
    annotation = definition.returns
    classes = Classes(names)
    if not is_generator(definition):
        return classes.schema(module, _of_one(annotation) if batched else annotation)
    yielded = annotation.slice if type(annotation) is ast.Subscript else None
    first = yielded.elts[0] if type(yielded) is ast.Tuple and yielded.elts else yielded
    return {"type": "array", "items": classes.schema(module, first)}


def _common(module: Module, definition) -> dict:
    return {"name": definition.name, "module": module.name, "doc": _doc(definition)}


def _marks(module: Module, definition) -> list[str]:
    return [module.source(each) for each in definition.decorator_list]


def _is_public(module: Module, method) -> bool:
    """Methods a job may name; a class with one only needs no name."""
    if method.name.startswith("_"):
        return False
    endings = ("property", ".setter", ".deleter", ".getter", ".overload")
    return not any(mark.endswith(endings) or mark == "overload" for mark in _marks(module, method))


def is_bound(module: Module, method) -> int:
    """1 where the first parameter is self or cls."""
    return int("staticmethod" not in _marks(module, method))


def is_async(definition) -> bool:
    return type(definition) is ast.AsyncFunctionDef


def is_generator(definition) -> bool:
    """Contains a yield of its own, not one of a function inside it."""
    waiting = list(definition.body)
    while waiting:
        node = waiting.pop()
        if type(node) in (ast.Yield, ast.YieldFrom):
            return True
        if type(node) not in _NESTED:
            waiting.extend(children(node))
    return False


def _doc(definition) -> str:
    first = definition.body[0]
    value = first.value if type(first) is ast.Expr else None
    text = value.value if type(value) is ast.Constant else None
    return _clean(text) if isinstance(text, str) else ""


def _clean(text: str) -> str:
    """As inspect.cleandoc() has it."""
    lines = text.expandtabs().split("\n")
    margin = min((len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()), default=0)
    lines = [lines[0].lstrip(), *(line[margin:] for line in lines[1:])]
    while lines and not lines[-1].strip():
        lines.pop()
    while lines and not lines[0].strip():
        lines.pop(0)
    return "\n".join(lines)


def _parameters(names: Names, module: Module, definition, batched: bool = False) -> list[dict]:
    given = definition.args
    classes = Classes(names)
    plain = [*given.posonlyargs, *given.args]
    defaults = [*[None] * (len(plain) - len(given.defaults)), *given.defaults]
    found = [_parameter(classes, module, each, default, "", batched) for each, default in zip(plain, defaults)]
    if given.vararg is not None:
        found.append(_parameter(classes, module, given.vararg, None, "*"))
    named = zip(given.kwonlyargs, given.kw_defaults)
    found.extend(_parameter(classes, module, each, default, "", batched) for each, default in named)
    if given.kwarg is not None:
        found.append(_parameter(classes, module, given.kwarg, None, "**"))
    return found


def _of_one(annotation):
    """The annotation of one input or result of a batched function: `list[str]` → `str`; None where it does not say."""
    if type(annotation) is ast.Constant and isinstance(annotation.value, str):
        try:
            annotation = getattr(compile(annotation.value, "annotation", "eval", ast.PyCF_ONLY_AST), "body", None)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
    if type(annotation) is not ast.Subscript:
        return None
    name = getattr(annotation.value, "id", getattr(annotation.value, "attr", ""))
    return annotation.slice if name in ("list", "List", "Sequence") else None


def _parameter(classes: Classes, module: Module, argument, default, stars: str = "", batched: bool = False) -> dict:
    annotation = _of_one(argument.annotation) if batched else argument.annotation
    unplaced = batched and type(argument.annotation) is ast.Constant
    schema = classes.schema(module, annotation)
    value = None if default is None else classes.value(module, default)
    return {
        "name": f"{stars}{argument.arg}",
        "annotation": "" if annotation is None or unplaced else module.source(annotation),
        "default": None if default is None else module.source(default),
        "schema": schema if value is None else {**schema, "default": value},
    }
