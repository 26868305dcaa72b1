"""The cells that a notebook has run: where a function was declared, and which cell gave a name its value last."""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import sys

from svc.errors import DeployFailed
from svc.remote_function import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator


class Cell:
    """One that ran. `text` is Python: IPython has turned lines with % and ! into calls of `get_ipython()`."""

    def __init__(self, number: int, text: str) -> None:
        self.label = f"In[{number}]"
        self.text = text
        self.lines = text.split("\n")
        try:
            self.body = ast.parse(text).body
        except SyntaxError:
            self.body = []  # it never ran

    def names(self) -> dict[str, ast.stmt]:
        """What its top level gives a value, with the last statement that does."""
        return {name: statement for statement in self.body for name in _bound(statement)}


class History:
    """The cells of this kernel in the order in which they ran. Raises DeployFailed outside IPython."""

    def __init__(self) -> None:
        shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        if shell is None:
            raise DeployFailed(
                "svc.deploy deploys what is declared in a notebook, and this is none: write the code to a file, "
                "worker.py, and run svc deploy in its folder"
            )
        self.cells = [Cell(n, text) for n, text in enumerate(shell.history_manager.input_hist_parsed) if text]
        self._names: list[dict[str, ast.stmt]] | None = None

    def cell_of(self, declared: Any) -> Cell:
        """Where a function or class is declared. Raises DeployFailed with the reason when that is no cell."""
        file = _file_of(declared)
        text = "".join(linecache.getlines(file)).rstrip("\n")
        for cell in reversed(self.cells):
            if text and cell.text == text:
                return cell
        name = declared.__name__
        if os.path.isfile(file):
            raise DeployFailed(f"{name} is declared in {file}, not in a cell: run svc deploy in that file's folder")
        raise DeployFailed(
            f"the source of {name} is not to be had: declare it at the top of a cell of its own, without %%time and the "
            "like, and run that cell again; or begin the cell with %%writefile worker.py and run !svc deploy"
        )

    def last_with(self, name: str) -> tuple[Cell, ast.stmt] | None:
        """The statement that gave a name its value last, as far as it stands at the top level of a cell."""
        if self._names is None:
            self._names = [cell.names() for cell in self.cells]
        for cell, names in zip(reversed(self.cells), reversed(self._names)):
            if name in names:
                return cell, names[name]
        return None


def _file_of(declared: Any) -> str:
    """The name under which linecache has the code of a function or of a class's methods; "" without code."""
    own = [declared]
    if inspect.isclass(declared):
        own = [each for kind in inspect.getmro(declared) for each in vars(kind).values()]
    for each in own:
        code = getattr(inspect.unwrap(plain(each)), "__code__", None) if callable(each) else None
        if code is not None and getattr(each, "__module__", "") == declared.__module__:
            return str(code.co_filename)
    return ""


def _bound(statement: ast.stmt) -> Iterator[str]:
    """Names that a statement of the top level gives a value."""
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        yield from (bound_by(alias) for alias in statement.names)
        return
    for node in _own_nodes(statement):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.alias):
            yield bound_by(node)


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Without what stands inside functions and classes."""
    yield node
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
        for child in ast.iter_child_nodes(node):
            yield from _own_nodes(child)


def bound_by(alias: ast.alias) -> str:
    """`import a.b` gives `a` a value, `import a.b as c` gives `c` one."""
    return alias.asname or alias.name.split(".")[0]
