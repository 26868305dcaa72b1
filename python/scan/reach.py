"""Which files of the project a module may need when it runs: what it imports anywhere, and what that imports."""

from __future__ import annotations

import _ast as ast

from scan.module import Module, Project
from scan.scope import imported

#: What may load code by a name that only the running program knows. A file's name stands for all ways to read one.
_BY_NAME = (
    *("importlib", "__import__", "runpy", "pkgutil", "sys.path", ".py"),
    *("subprocess", "multiprocessing", "os.system", "os.exec", "os.spawn", "os.popen"),
)
_CALLS = ("exec(", "eval(")


class Reach:
    def __init__(self, project: Project) -> None:
        self._project = project
        self._direct: dict[str, set[str] | None] = {}

    def of(self, path: str) -> list[str] | None:
        """The files, its own among them; None where it may be any."""
        reached, waiting = set(), [path]
        while waiting:
            each = waiting.pop()
            if each in reached:
                continue
            reached.add(each)
            direct = self._imported_by(each)
            if direct is None:
                return None
            waiting.extend(direct)
        return sorted(reached)

    def _imported_by(self, path: str) -> set[str] | None:
        if path not in self._direct:
            text = self._project.texts[path]
            unknown = text is None or _loads_by_name(text)
            self._direct[path] = None if unknown else self._imports(self._project.by_path(path))
        return self._direct[path]

    def _imports(self, module: Module) -> set[str]:
        found: set[str] = set()
        # The packages around it run first.
        self._add(module.name, found)
        for statement in statements(module.tree):
            if type(statement) not in (ast.Import, ast.ImportFrom):
                continue
            for _, source, member, _ in imported(module, statement):
                if source is None:
                    continue
                self._add(source, found)
                if member == "*":
                    found.update(self._project.below(source))
                elif member is not None:
                    self._add(f"{source}.{member}", found)
        return found

    def _add(self, name: str, found: set[str]) -> None:
        """The file of `a.b.c`, and those of `a` and `a.b`."""
        parts = name.split(".")
        for depth in range(1, len(parts) + 1):
            path = self._project.path_of(".".join(parts[:depth]))
            if path is not None:
                found.add(path)


def _loads_by_name(text: str) -> bool:
    return any(each in text for each in _BY_NAME) or any(_is_called(each, text) for each in _CALLS)


def _is_called(call: str, text: str) -> bool:
    """`eval(...)`, but not `model.eval()`."""
    at = text.find(call)
    while at != -1:
        before = text[at - 1] if at > 0 else " "
        if not (before.isidentifier() or before.isdigit() or before == "."):
            return True
        at = text.find(call, at + 1)
    return False


def statements(tree):
    """Every statement of a module, those inside functions and classes too."""
    waiting = list(tree.body)
    while waiting:
        statement = waiting.pop()
        yield statement
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting.extend(getattr(statement, field, ()))
