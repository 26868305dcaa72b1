"""What the names of a module are bound to, in the order of the source.

Bindings under a condition (if, try, for …) are marked: whether they happen is only known when the code runs.
"""

from __future__ import annotations

import _ast as ast

from scan.module import FUNCTIONS, Module, end

_CHANGING = frozenset(("append", "extend", "insert", "update", "setdefault", "pop", "remove", "clear", "sort"))
_BLOCKS = ("body", "handlers", "cases", "orelse", "finalbody")


class Binding:
    """`kind` is module, member, value, added (`+=`), definition or opaque (a loop, unpacked, deleted …)."""

    __slots__ = ("at", "conditional", "kind", "member", "module", "node", "why")

    def __init__(self, kind: str, node, at: tuple[int, int], conditional: bool, module="", member="", why="") -> None:
        self.kind = kind
        #: The value, the definition or the statement.
        self.node = node
        #: From here on the name is bound.
        self.at = at
        self.conditional = conditional
        self.module = module
        self.member = member
        self.why = why


class Import:
    """One name of an import statement that runs when the module is imported."""

    __slots__ = ("conditional", "member", "module", "node")

    def __init__(self, module: str, member: str | None, node, conditional: bool) -> None:
        self.module = module
        self.member = member
        self.node = node
        self.conditional = conditional


class Scope:
    def __init__(self, module: Module) -> None:
        self.bindings: dict[str, list[Binding]] = {}
        #: Modules of `from m import *`.
        self.stars: list[str] = []
        self.imports: list[Import] = []
        self._module = module
        # By hand and not by recursion: a chain of elif is as deep as it is long.
        waiting = [(iter(module.tree.body), False)]
        while waiting:
            statements, conditional = waiting[-1]
            statement = next(statements, None)
            if statement is None:
                waiting.pop()
            elif self._reads_blocks(statement, conditional):
                blocks = [part for name in _BLOCKS for part in getattr(statement, name, ())]
                waiting.append((iter(blocks), True))

    def _reads_blocks(self, statement, conditional: bool) -> bool:
        """Notes what the statement itself binds; whether what stands below it is to be read too."""
        kind = type(statement)
        if kind is ast.Assign:
            for target in statement.targets:
                self._assign(target, statement.value, statement, conditional)
        elif kind is ast.AnnAssign:
            if statement.value is not None:
                self._assign(statement.target, statement.value, statement, conditional)
        elif kind is ast.AugAssign:
            if type(statement.target) is ast.Name and type(statement.op) is ast.Add:
                self._add(statement.target.id, Binding("added", statement.value, end(statement), conditional))
            else:
                self._opaque(statement.target, conditional, "is changed in place")
        elif kind is ast.Import or kind is ast.ImportFrom:
            self._import(statement, conditional)
        elif kind in FUNCTIONS or kind is ast.ClassDef:
            self._add(statement.name, Binding("definition", statement, end(statement), conditional))
        elif kind is ast.Expr:
            called = statement.value.func if type(statement.value) is ast.Call else None
            if type(called) is ast.Attribute and called.attr in _CHANGING:
                self._opaque(called.value, conditional, f"is changed by .{called.attr}()")
        elif kind is ast.Delete:
            for target in statement.targets:
                self._opaque(target, conditional, "is deleted")
        elif kind is ast.For or kind is ast.AsyncFor:
            self._opaque(statement.target, conditional, "is bound by a loop")
            return True
        elif kind is ast.If:
            # Types only: nothing of it happens when the code runs.
            test = statement.test
            return "TYPE_CHECKING" not in (getattr(test, "id", ""), getattr(test, "attr", ""))
        else:
            return True
        return False

    def _add(self, name: str, binding: Binding) -> None:
        self.bindings.setdefault(name, []).append(binding)

    def _assign(self, target, value, statement, conditional: bool) -> None:
        if type(target) is ast.Name:
            self._add(target.id, Binding("value", value, end(statement), conditional))
        else:
            subscript = type(target) is ast.Subscript
            self._opaque(target, conditional, "is changed in place" if subscript else "is unpacked from a sequence")

    def _opaque(self, target, conditional: bool, why: str) -> None:
        for name in _bound_names(target):
            self._add(name, Binding("opaque", target, end(target), conditional, why=why))

    def _import(self, statement, conditional: bool) -> None:
        for name, module, member, stands_for in imported(self._module, statement):
            if module is None:
                continue
            self.imports.append(Import(module, member, statement, conditional))
            if member == "*":
                self.stars.append(module)
            elif member is None:
                self._add(name, Binding("module", statement, end(statement), conditional, module=stands_for))
            else:
                binding = Binding("member", statement, end(statement), conditional, module=module, member=member)
                self._add(name, binding)


def _bound_names(target) -> list[str]:
    """Names a target binds or changes: `a`, `a, b`, `a[0]`, `del a`."""
    names, waiting = [], [target]
    while waiting:
        node = waiting.pop()
        if type(node) is ast.Name:
            names.append(node.id)
        elif type(node) in (ast.Subscript, ast.Starred):
            waiting.append(node.value)
        elif type(node) in (ast.Tuple, ast.List):
            waiting.extend(node.elts)
    return names


def imported(module: Module, statement) -> list[tuple[str, str | None, str | None, str]]:
    """(name it binds, module, member, module the name stands for) of each name of an import statement.

    The module is None where a relative import leaves the project. `import a.b` binds a, `import a.b as c` binds a.b.
    """
    if type(statement) is ast.Import:
        first = [(each, each.name.partition(".")[0]) for each in statement.names]
        return [(each.asname or top, each.name, None, each.name if each.asname else top) for each, top in first]
    source = _absolute(module, statement.level, statement.module or "")
    return [(each.asname or each.name, source, each.name, "") for each in statement.names]


def _absolute(module: Module, dots: int, tail: str) -> str | None:
    if dots == 0:
        return tail
    folders = module.name.split(".") if module.name else []
    keep = len(folders) - (dots - 1 if module.is_package else dots)
    return None if keep < 0 else ".".join(folders[:keep] + ([tail] if tail else []))
