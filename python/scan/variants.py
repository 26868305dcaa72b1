"""Finds `Model.with_options(…)` and `svc.with_options(Model, …)`: a declared class once more, as an endpoint of its own."""

from __future__ import annotations

import _ast as ast

from scan.fold import Folder
from scan.module import Module
from scan.names import Meaning, Names

_BASES_MAX = 20
_DEPTH_MAX = 20


class Variants:
    def __init__(self, names: Names, folder: Folder, report) -> None:
        self._names = names
        self._folder = folder
        #: Takes a rule, a place and a name.
        self._report = report

    def look(self, module: Module, calls: list[tuple]):
        """(call, the class it is of) of each that is at the top level and of a class of the project."""
        for call, top in calls:
            of = self._class_of(module, call)
            if of is None:
                continue
            if not top:
                self._report("nested-variant", module.place(call))
            elif of.kind != "definition" or type(of.node) is not ast.ClassDef:
                self._report("variant-class", module.place(call))
            else:
                yield call, of

    def given(self, module: Module, call) -> list[dict]:
        """Its keywords, as those of an Endpoint."""
        found = []
        for each in call.keywords:
            place = module.place(each)
            if each.arg:
                place = module.span(each.lineno, each.col_offset, each.lineno, each.col_offset + len(each.arg.encode()))
            value = self._folder.fold(module, each.value).to_json()
            found.append({"name": each.arg or "**", "at": place, "value": value})
        return found

    def options(self, of: Meaning, depth: int = 0) -> list[dict]:
        """What the class and its bases declare with `svc.option`, in order."""
        found: dict[str, dict] = {}
        for base in of.node.bases if depth < _BASES_MAX else ():
            meaning = self._names.meaning(of.module, base)
            if meaning.kind == "definition" and type(meaning.node) is ast.ClassDef:
                found.update({each["name"]: each for each in self.options(meaning, depth + 1)})
        for statement in of.node.body:
            targets = statement.targets if type(statement) is ast.Assign else [getattr(statement, "target", None)]
            call = getattr(statement, "value", None)
            if type(targets[0]) is not ast.Name or type(call) is not ast.Call:
                continue
            if self._names.meaning(of.module, call.func).path != ("option",):
                continue
            given = {each.arg: each.value for each in call.keywords}
            default = call.args[0] if call.args else given.get("default")
            option = {"name": targets[0].id, "at": of.module.place(call)}
            for name, node in (("default", default), ("choices", given.get("choices"))):
                option[name] = None if node is None else self._folder.fold(of.module, node).to_json()
            found[option["name"]] = option
        return list(found.values())

    def _class_of(self, module: Module, call, depth: int = 0) -> Meaning | None:
        """None for any other call."""
        called = call.func
        if type(called) is not ast.Name and (type(called) is not ast.Attribute or called.attr != "with_options"):
            return None
        meaning = self._names.meaning(module, called)
        if meaning.kind == "svc" and meaning.path == ("with_options",):
            return self._names.meaning(module, call.args[0]) if call.args else meaning
        if type(called) is not ast.Attribute:
            return None
        of = self._names.meaning(module, called.value)
        if of.kind != "definition" or type(of.node) is not ast.ClassDef:
            # Of a variant; objects that are not of this package have methods of that name too.
            return of if of.kind == "expression" and depth < _DEPTH_MAX and self._is_variant(of, depth) else None
        own = any(getattr(each, "name", "") == "with_options" for each in of.node.body)
        return None if own or not of.node.decorator_list else of

    def _is_variant(self, of: Meaning, depth: int) -> bool:
        return type(of.node) is ast.Call and self._class_of(of.module, of.node, depth + 1) is not None
