"""`Image.from_registry("x").apt("y").run("z").env(KEY="v")`: the calls of such a chain in their order, as a made value."""

from __future__ import annotations

import _ast as ast

from scan.value import Value

_STARTS = ("from_registry", "debian")
_STEPS = ("apt", "run", "env")


def image_of(fold, meaning, module, node, place) -> Value | None:
    """None for another call. `fold(node)` gives a value."""
    if type(node.func) is not ast.Attribute:
        return None
    name = node.func.attr
    if meaning.kind == "svc" and len(meaning.path) == 2 and meaning.path[0] == "Image" and meaning.path[1] in _STARTS:
        calls: list = []
    elif name in _STEPS:
        before = fold(node.func.value)
        if before.kind != "made" or before.data[0] != "Image":
            return None
        calls = before.data[1]
    else:
        return None
    calls = [*calls, (name, _given(fold, module, node, place, name))]
    return Value("made", ("Image", calls), place, size=1 + sum(value.size for _, value in calls))


def _given(fold, module, node, place, name: str) -> Value:
    if name != "env":
        items: list[Value] = []
        for each in node.args:
            value = fold(each.value if type(each) is ast.Starred else each)
            items.extend(value.data if type(each) is ast.Starred and value.kind == "list" else [value])
        items.extend(Value("unknown", "it is a keyword", module.place(each.value)) for each in node.keywords)
        return Value("list", items, place, False, 1 + sum(item.size for item in items))
    entries = [(fold(each), fold(each)) for each in node.args]
    for each in node.keywords:
        value = fold(each.value)
        if each.arg is None and value.kind == "dict":
            entries.extend(value.data)
        else:
            entries.append((Value("string", each.arg or "**", place), value))
    return Value("dict", entries, place, size=1 + sum(value.size for _, value in entries))
