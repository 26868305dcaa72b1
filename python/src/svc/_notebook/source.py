"""One file of the cells that declare something:

    from __future__ import …    of all cells, as IPython keeps them
    import numpy as np          of other cells, those that are used
    the declaring cells         each down to its call of svc.deploy

Everything else that they use must stand in them: a value of another cell may be another one by now.
"""

from __future__ import annotations

import ast
import builtins
import os
import re
import symtable

from svc._notebook.cells import Cell, History, bound_by
from svc.errors import DeployFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FILE = "worker.py"

_KNOWN = {*dir(builtins), "__name__", "__file__", "__doc__", "__package__", "__spec__", "__class__", "__annotations__"}
_OF_IPYTHON = {"get_ipython", "display"}


class Source:
    """The file's text, and which line of it is which of a cell."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._origins: dict[int, tuple[str, int]] = {}

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)

    def add(self, line: str, origin: tuple[str, int] | None = None) -> None:
        self.lines.append(line)
        if origin is not None:
            self._origins[len(self.lines)] = origin

    def in_cells(self, text: str) -> str:
        """What the build says of the file, with the cells' own lines."""
        said = re.sub(rf"(?<![\w./-]){re.escape(FILE)}:(\d+)", self._place, text)
        said = re.sub(rf'File "[^"]*\b{re.escape(FILE)}", line (\d+)', self._traceback_place, said)
        return re.sub(r"^( *)(\d+)( \| )", self._gutter, said, flags=re.MULTILINE)

    def _place(self, match: re.Match[str]) -> str:
        origin = self._origins.get(int(match[1]))
        return f"{origin[0]}:{origin[1]}" if origin else match[0]

    def _traceback_place(self, match: re.Match[str]) -> str:
        origin = self._origins.get(int(match[1]))
        return f"Cell {origin[0]}, line {origin[1]}" if origin else match[0]

    def _gutter(self, match: re.Match[str]) -> str:
        origin = self._origins.get(int(match[2]))
        return f"{str(origin[1]).rjust(len(match[1]) + len(match[2]))}{match[3]}" if origin else match[0]


def source_of(cells: list[Cell], history: History, namespace: dict[str, Any]) -> Source:
    """Raises DeployFailed with everything that stands in the way."""
    taken = {cell: _without_futures(cell, _end(cell, namespace)) for cell in cells}
    problems = _twice(cells)
    used: set[str] = set()
    bound: set[str] = set()
    for cell, lines in taken.items():
        try:
            code = "\n".join(lines)
            compile(code, FILE, "exec", dont_inherit=True)
            table = symtable.symtable(code, FILE, "exec")
        except SyntaxError as error:
            problems.append(f"{cell.label}:{error.lineno}: {error.msg}: move that line to a cell of its own")
            continue
        _walk(table, True, used, bound)
    free = used - bound - (_KNOWN - _OF_IPYTHON)
    imports, missing = _imports(free, history)
    problems += missing
    problems += _local_modules(imports, [node for cell in cells for node in cell.body])
    if problems:
        raise DeployFailed("\n  ".join(["these cells cannot be deployed:", *problems]))
    source = Source()
    futures = sorted({alias.name for cell in history.cells for node in cell.body for alias in _futures(node)})
    for line in (*(f"from __future__ import {name}" for name in futures), *sorted(map(ast.unparse, imports))):
        source.add(line)
    for cell, lines in taken.items():
        for number, line in enumerate(lines, 1):
            source.add(line, (cell.label, number))
    return source


def _end(cell: Cell, namespace: dict[str, Any]) -> int:
    """The line of the cell's own call of svc.deploy, from 0; what follows it is for the notebook."""
    for statement in cell.body:
        call = getattr(statement, "value", None)
        if not isinstance(call, ast.Call):
            continue
        called: Any = None
        if isinstance(call.func, ast.Name):
            called = namespace.get(call.func.id)
        elif isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
            called = getattr(namespace.get(call.func.value.id), call.func.attr, None)
        if (getattr(called, "__module__", ""), getattr(called, "__name__", "")) == ("svc", "deploy"):
            return statement.lineno - 1
    return len(cell.lines)


def _without_futures(cell: Cell, end: int) -> list[str]:
    lines = cell.lines[:end]
    for statement in cell.body:
        if _futures(statement) and statement.lineno <= end:
            first, last = statement.lineno - 1, statement.end_lineno or statement.lineno
            lines[first:last] = [""] * (last - first)
    return lines


def _futures(statement: ast.stmt) -> list[ast.alias]:
    is_one = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
    return statement.names if isinstance(statement, ast.ImportFrom) and is_one else []


def _walk(table: symtable.SymbolTable, is_top: bool, used: set[str], bound: set[str]) -> None:
    """Which names of the module the code uses, and to which it gives a value."""
    for symbol in table.get_symbols():
        if is_top or symbol.is_global():
            if symbol.is_referenced():
                used.add(symbol.get_name())
            if symbol.is_assigned() or symbol.is_imported():
                bound.add(symbol.get_name())
    for child in table.get_children():
        _walk(child, False, used, bound)


def _twice(cells: list[Cell]) -> list[str]:
    """Cells become one file, where a name has one value."""
    first: dict[str, Cell] = {}
    problems = []
    for cell in cells:
        for name, statement in cell.names().items():
            is_import = isinstance(statement, (ast.Import, ast.ImportFrom))
            if not is_import and first.setdefault(name, cell) is not cell:
                where = f"{first[name].label} and in {cell.label}"
                problems.append(f"{name} is in {where}: rename one, or deploy them apart")
    return problems


def _imports(free: set[str], history: History) -> tuple[list[ast.Import | ast.ImportFrom], list[str]]:
    """The imports of other cells that give the names, and what is wrong with those that none gives."""
    imports: list[ast.Import | ast.ImportFrom] = []
    elsewhere = []
    for name in sorted(free - _OF_IPYTHON):
        found = history.last_with(name)
        statement = found[1] if found else None
        if isinstance(statement, ast.Import):
            imports += [ast.Import([each]) for each in statement.names if bound_by(each) == name]
        elif isinstance(statement, ast.ImportFrom):
            names = [each for each in statement.names if bound_by(each) == name]
            imports.append(ast.ImportFrom(statement.module, names, statement.level))
        else:
            elsewhere.append(f"{name} ({found[0].label})" if found else f"{name} (no cell's own)")
    problems = []
    if elsewhere:
        problems.append(
            f"they use names of other cells, of which only imports are taken along: {', '.join(elsewhere)}. Move what "
            "defines them into the cell that declares the endpoint, or give the function their values as arguments"
        )
    if free & _OF_IPYTHON:
        problems.append(
            "they have a line with % or !, or display(), which only a notebook has: move it to a cell of its own"
        )
    return imports, problems


def _local_modules(imports: list[ast.Import | ast.ImportFrom], body: list[ast.stmt]) -> list[str]:
    """Files beside the notebook: no part of what is deployed."""
    names: set[str] = set()
    for node in (each for statement in (*imports, *body) for each in ast.walk(statement)):
        if isinstance(node, ast.Import):
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    local = sorted(name for name in names if os.path.isfile(f"{name}.py") or os.path.isfile(f"{name}/__init__.py"))
    if not local:
        return []
    return [
        f"they import files of this folder, which a cell does not take along: {', '.join(local)}. Copy what they need into "
        f"the cell, or begin the cell with %%writefile {FILE} and run !svc deploy"
    ]
