"""One file of the project: its text, its tree, and where a node stands in it."""

from __future__ import annotations

import _ast as ast
import sys

#: A place: file, line, column, last line, column behind its end. Lines and columns from 1, columns in UTF-16 units.
Place = list
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Module:
    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.name = module_name(path)
        self.is_package = path.rpartition("/")[2] == "__init__.py"
        self.original = text
        self.text = text.replace("\r\n", "\n").replace("\r", "\n")
        self.tree = _parsed("", path)
        #: Message, line and column of what Python does not accept.
        self.problem: list | None = None
        self._lines: list[bytes] | None = None
        try:
            self.tree = _parsed(self.text, path)
        except SyntaxError as error:
            self.problem = [error.msg, error.lineno or 1, error.offset or 1]
        except (ValueError, RecursionError, MemoryError, OverflowError) as error:
            self.problem = [str(error) or "it is nested too deeply", 1, 1]

    def place(self, node) -> Place:
        return self.span(node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)

    def span(self, line: int, start: int, last: int, end: int) -> Place:
        return [self.path, line, self._units(line, start) + 1, last, self._units(last, end) + 1]

    def source(self, node) -> str:
        """The text that the node was read from."""
        lines = self.lines[node.lineno - 1 : node.end_lineno]
        lines[-1] = lines[-1][: node.end_col_offset]
        lines[0] = lines[0][node.col_offset :]
        return b"\n".join(lines).decode()

    @property
    def lines(self) -> list[bytes]:
        """As the parser counts columns: in bytes of UTF-8."""
        if self._lines is None:
            self._lines = self.text.encode().split(b"\n")
        return self._lines

    def _units(self, line: int, column: int) -> int:
        if self.text.isascii():
            return column
        return len(self.lines[line - 1][:column].decode(errors="replace").encode("utf-16-le")) // 2


class Project:
    """The project's Python files by dotted name. A file is parsed the first time somebody asks for it."""

    def __init__(self, texts: dict[str, str | None], known: dict[str, Module]) -> None:
        #: None: the file is too large to be read.
        self.texts = texts
        self.parsed: dict[str, Module] = {}
        self._known = known
        self._files: dict[str, str] = {}
        self._packages: set[str] = set()
        for path in texts:
            self._files[module_name(path)] = path
            folders = path.split("/")[:-1]
            self._packages.update(".".join(folders[:depth]) for depth in range(1, len(folders) + 1))

    def has(self, name: str) -> bool:
        """Whether a module or a folder with modules of this name is part of the project."""
        return name in self._files or name in self._packages

    def path_of(self, name: str) -> str | None:
        return self._files.get(name)

    def below(self, package: str) -> list[str]:
        """The files of a package and of the packages in it."""
        return [path for name, path in self._files.items() if name.startswith(f"{package}.")]

    def by_name(self, name: str) -> Module | None:
        path = self._files.get(name)
        return None if path is None or self.texts[path] is None else self.by_path(path)

    def by_path(self, path: str) -> Module:
        module = self.parsed.get(path)
        if module is None:
            text = self.texts[path] or ""
            module = self._known.get(path)
            if module is None or module.original != text:
                # Where this ends the process, what was written last names the file.
                sys.stderr.write(f"{path}\n")
                module = Module(path, text)
            self.parsed[path] = module
        return module


def _parsed(text: str, path: str):
    return compile(text, path, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)


def module_name(path: str) -> str:
    """"workers/hello.py" → "workers.hello", "workers/__init__.py" → "workers"."""
    parts = path[: -len(".py")].split("/")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def start(node) -> tuple[int, int]:
    return (node.lineno, node.col_offset)


def end(node) -> tuple[int, int]:
    return (node.end_lineno, node.end_col_offset)


def children(node):
    """Nodes directly below, in the order of the source for everything that matters here."""
    for field in node._fields:
        value = getattr(node, field, None)
        if isinstance(value, ast.AST):
            yield value
        elif type(value) is list:
            for item in value:
                if isinstance(item, ast.AST):
                    yield item
