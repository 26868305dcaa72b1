"""Reads requests from standard input and writes one line of JSON for each.

A request is its length in bytes in a line, then fields that end with NUL: for each Python file of the project its path,
a letter and its text. The letter: c is looked into, f only when it is imported, - is too large to be read.
"""

from __future__ import annotations

import _ast as ast
import gc
import resource
import sys

from _json import encode_basestring_ascii as quoted
from scan.find import Finder
from scan.fold import Folder
from scan.module import Module, Project
from scan.names import Names
from scan.ping import shadowed
from scan.reach import Reach, statements

_MEMORY_MAX_BYTES = 4 * 1024**3


def main() -> None:
    _bound_memory()
    # Trees have no cycles; without the collector they are made in two thirds of the time.
    gc.disable()
    known: dict[str, Module] = {}
    while line := sys.stdin.buffer.readline():
        fields = sys.stdin.buffer.read(int(line)).decode().split("\0")[:-1]
        answer, known = scan(fields, known)
        sys.stdout.write(f"{to_json(answer)}\n")
        sys.stdout.flush()


def _bound_memory() -> None:
    """Where the system keeps to it, a source that asks for more gets a finding."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = min(bound for bound in (_MEMORY_MAX_BYTES, soft, hard) if bound != resource.RLIM_INFINITY)
    try:
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    except (ValueError, OSError):
        pass


def scan(fields: list[str], known: dict[str, Module]) -> tuple[dict, dict[str, Module]]:
    """The answer, and the modules that were parsed for it: those that stay as they are need not be parsed again."""
    paths, letters, texts = fields[0::3], fields[1::3], fields[2::3]
    project = Project({p: None if letter == "-" else text for p, letter, text in zip(paths, letters, texts)}, known)
    names = Names(project)
    finder = Finder(names, Folder(names))
    for path, letter in zip(paths, letters):
        if letter == "c":
            module = project.by_path(path)
            try:
                finder.look(module)
            except RecursionError:
                module.problem = ["it is nested too deeply", 1, 1]
    finder.end()
    files = {use["file"] for use in finder.uses}
    modules = _imported_together(project, names, files)
    reach = Reach(project)
    reached = {path: reach.of(path) for path in sorted(files)}
    problems = [[module.path, *module.problem] for module in project.parsed.values() if module.problem is not None]
    answer = {
        "objects": list(finder.objects.values()),
        "named": finder.named,
        "uses": finder.uses,
        "functions": finder.functions,
        "findings": [*finder.findings, *shadowed(project, finder.uses, reached)],
        "modules": modules,
        "reach": reached,
        "problems": problems,
    }
    return answer, project.parsed


def _imported_together(project: Project, names: Names, files: set[str]) -> dict[str, dict]:
    """Imports of the modules that declare endpoints, and of the project's modules that importing them imports too."""
    modules: dict[str, dict] = {}
    waiting = sorted(files)
    while waiting:
        path = waiting.pop()
        if path in modules:
            continue
        module = project.by_path(path)
        imports, below = [], []
        for each in names.scope(module).imports:
            if each.conditional:
                continue
            imports.append({"module": each.module, "at": module.place(each.node)})
            child = None if each.member is None else project.by_name(f"{each.module}.{each.member}")
            target = child or project.by_name(each.module)
            if target is not None:
                below.append(target.path)
        relative = []
        if path in files:
            nodes = (node for node in statements(module.tree) if type(node) is ast.ImportFrom and node.level > 0)
            relative = [_dots(module, node) for node in nodes]
        modules[path] = {"imports": imports, "below": below, "relative": relative}
        waiting.extend(below)
    return modules


def _dots(module: Module, statement) -> list:
    """The place of the `.name` in `from .name import x`."""
    line = module.lines[statement.lineno - 1]
    first = max(line.find(b".", statement.col_offset), statement.col_offset)
    last = line.find(b" ", first)
    return module.span(statement.lineno, first, statement.lineno, len(line) if last == -1 else last)


def to_json(value) -> str:
    """The module json would take longer to import than all else here."""
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, dict):
        return f"{{{','.join([f'{quoted(key)}:{to_json(item)}' for key, item in value.items()])}}}"
    if isinstance(value, (list, tuple)):
        return f"[{','.join([to_json(item) for item in value])}]"
    return repr(value)
