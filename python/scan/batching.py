"""Finds what `svc.batched` marks: what of a function is a list there is one thing for its callers."""

from __future__ import annotations

import _ast as ast

from scan.describe import is_generator
from scan.fold import Folder
from scan.module import Module
from scan.names import Names

MAX_SIZE = 16
_SIZE_MAX = 500


class Batching:
    def __init__(self, names: Names, folder: Folder, report) -> None:
        self._names = names
        self._folder = folder
        #: Takes a rule, a place and a name.
        self._report = report

    def size(self, module: Module, definition) -> int:
        """Inputs of one call of the function; 0 for one that is not batched."""
        for decorator in getattr(definition, "decorator_list", ()):
            called = decorator.func if type(decorator) is ast.Call else decorator
            if type(called) not in (ast.Name, ast.Attribute):
                continue
            meaning = self._names.meaning(module, called)
            if meaning.kind == "svc" and meaning.path == ("batched",):
                return self._size(module, definition, decorator)
        return 0

    def _size(self, module: Module, definition, decorator) -> int:
        place = module.place(decorator)
        if type(decorator) is not ast.Call:
            self._report("batched-bare", place, definition.name)
            return MAX_SIZE
        given = definition.args
        if given.vararg is not None or given.kwarg is not None:
            self._report("batched-variadic", place, definition.name)
        if is_generator(definition):
            self._report("batched-generator", place, definition.name)
        for keyword in decorator.keywords:
            if keyword.arg != "max_size":
                continue
            value = self._folder.fold(module, keyword.value)
            if value.kind == "number" and isinstance(value.data, int) and 1 <= value.data <= _SIZE_MAX:
                return value.data
            self._report("batched-size", module.place(keyword.value), definition.name)
        return MAX_SIZE
