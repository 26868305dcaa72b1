"""Finds what `svc.enter` and `svc.exit` mark, and where they cannot work."""

from __future__ import annotations

import _ast as ast

from scan.describe import is_async, is_bound, is_generator
from scan.module import FUNCTIONS, Module, children
from scan.names import Names

_MARKS = (("enter",), ("exit",))


class Lifecycle:
    def __init__(self, names: Names, report) -> None:
        self._names = names
        #: Takes a rule, a place and the method's name.
        self._report = report

    def mark(self, module: Module, decorator) -> str:
        """"enter" or "exit"; "" for another decorator."""
        called = decorator.func if type(decorator) is ast.Call else decorator
        if type(called) not in (ast.Name, ast.Attribute):
            return ""
        meaning = self._names.meaning(module, called)
        return meaning.path[0] if meaning.kind == "svc" and meaning.path in _MARKS else ""

    def look(self, module: Module, decorated: list[tuple], classes: list) -> None:
        """`decorated`: definitions, each with whether it is at the top level."""
        marked = []
        for definition, _top in decorated:
            marked += [(definition, each) for each in definition.decorator_list if self.mark(module, each)]
        if not marked:
            return
        class_of = {id(each): cls for cls in classes for each in _functions_in(cls)}
        for definition, decorator in marked:
            rule = self._fault(module, definition, decorator, class_of.get(id(definition)))
            if rule:
                self._report(rule, module.place(decorator), definition.name)

    def _fault(self, module: Module, definition, decorator, cls) -> str:
        if cls is None:
            return "lifecycle-place"
        given = definition.args
        parameters = len([*given.posonlyargs, *given.args, *given.kwonlyargs]) - is_bound(module, definition)
        if parameters > 0 or given.vararg is not None or given.kwarg is not None:
            return "lifecycle-parameters"
        if is_generator(definition):
            return "lifecycle-generator"
        if not is_async(definition):
            return ""
        shared = [each.value for each in getattr(decorator, "keywords", ()) if each.arg == "shared"]
        if any(getattr(value, "value", False) is True for value in shared):
            return "lifecycle-shared-async"
        others = [each for each in _functions_in(cls) if not any(self.mark(module, mark) for mark in each.decorator_list)]
        callable = [each for each in others if each.name == "__call__" or not each.name.startswith("_")]
        return "" if cls.bases or any(is_async(each) for each in callable) else "lifecycle-async"


def _functions_in(cls) -> list:
    """Of the class itself, also those that it has under a condition."""
    found = []
    waiting = list(cls.body)
    while waiting:
        node = waiting.pop()
        if type(node) in FUNCTIONS:
            found.append(node)
        elif type(node) is not ast.ClassDef and isinstance(node, (ast.stmt, ast.excepthandler)):
            waiting.extend(children(node))
    return found
