"""What a name or a dotted expression of the project stands for. Follows imports through the project's own modules."""

from __future__ import annotations

import _ast as ast

from scan.module import Module, Project, start
from scan.scope import Binding, Scope

_DEPTH_MAX = 40
_LOOKED_MAX = 10_000
_OF_THE_PACKAGE = (
    *("Endpoint", "GpuType", "GpuGroup", "Retries", "Secret", "Volume"),
    *("batched", "enter", "exit", "option", "remote", "with_options"),
    *("CpuInstanceType", "CudaVersion", "DataCenter", "NetworkVolume", "PodTemplate", "ServerlessScalerType"),
)
_END = (float("inf"), 0)


class Meaning:
    """`kind` is one of

    svc         path: names below the package: [] is the package, ["Endpoint"], ["GpuType", "NVIDIA_L4"]
    module      name
    expression  module, node
    added       module, node: `name += node`, after what the name meant `before`
    definition  module, node
    outside     name: dotted, outside the project: "os.environ"
    unknown     why
    """

    __slots__ = ("before", "kind", "module", "name", "node", "path", "why")

    def __init__(self, kind: str, *, name="", path=(), module=None, node=None, before=None, why="") -> None:
        self.kind = kind
        self.name = name
        self.path = path
        self.module = module
        self.node = node
        self.before = before
        self.why = why

    @property
    def is_endpoint_class(self) -> bool:
        return self.kind == "svc" and self.path == ("Endpoint",)


def _unknown(why: str) -> Meaning:
    return Meaning("unknown", why=why)


class Names:
    def __init__(self, project: Project) -> None:
        self._project = project
        self._scopes: dict[str, Scope] = {}
        self._looked = 0
        """So often for what is asked now."""

    def scope(self, module: Module) -> Scope:
        scope = self._scopes.get(module.path)
        if scope is None:
            scope = self._scopes[module.path] = Scope(module)
        return scope

    def meaning(self, module: Module, node, before=None, depth: int = 0) -> Meaning:
        """What `node` means where it stands, at `before` in its file."""
        if self._gives_up(depth):
            return _unknown("is defined by itself")
        kind = type(node)
        if kind is ast.Name:
            return self.lookup(module, node.id, before or start(node), depth + 1)
        if kind is not ast.Attribute:
            return Meaning("expression", module=module, node=node)
        of = self.meaning(module, node.value, before, depth + 1)
        return self._member(of, node.attr, module, node, depth + 1)

    def _gives_up(self, depth: int) -> bool:
        """Modules that take all of each other, twice, would be gone through 2 ** _DEPTH_MAX times."""
        self._looked = self._looked + 1 if depth > 0 else 0
        return depth > _DEPTH_MAX or self._looked > _LOOKED_MAX

    def lookup(self, module: Module, name: str, before, depth: int = 0) -> Meaning:
        if self._gives_up(depth):
            return _unknown("is defined by itself")
        scope = self.scope(module)
        bindings = [binding for binding in scope.bindings.get(name, ()) if binding.at <= before]
        if bindings:
            return self._bound(module, name, bindings, depth)
        for star in reversed(scope.stars):
            if star == "svc":
                if name in _OF_THE_PACKAGE:
                    return Meaning("svc", path=(name,))
                continue
            source = self._project.by_name(star)
            if source is None or name.startswith("_"):
                continue
            found = self.lookup(source, name, _END, depth + 1)
            if found.kind != "unknown":
                return found
        return _unknown(f"{name} is not defined at the top level of {module.path}")

    def _bound(self, module: Module, name: str, bindings: list[Binding], depth: int) -> Meaning:
        last = bindings[-1]
        if last.kind == "opaque":
            return _unknown(f"{name} {last.why}")
        if last.conditional and last.kind in ("value", "added"):
            # try: import x / except ImportError: x = None
            bindings = [binding for binding in bindings if binding.kind in ("module", "member")]
            if not bindings:
                return _unknown(f"{name} is assigned only under a condition")
            last = bindings[-1]
        if last.kind == "module":
            return self._module(last.module)
        if last.kind == "member":
            return self._member(self._module(last.module), last.member, module, last.node, depth)
        if last.kind == "definition":
            return Meaning("definition", module=module, node=last.node)
        if last.kind == "value":
            return self.meaning(module, last.node, start(last.node), depth + 1)
        if len(bindings) == 1:
            return _unknown(f"{name} has no first value")
        if depth > _DEPTH_MAX:
            return _unknown("is changed too often")
        before = self._bound(module, name, bindings[:-1], depth + 1)
        return Meaning("added", before=before, module=module, node=last.node)

    def _module(self, name: str) -> Meaning:
        if self._project.has(name):
            return Meaning("module", name=name)
        if name == "svc" or name.startswith("svc."):
            return Meaning("svc")
        return Meaning("outside", name=name)

    def _member(self, of: Meaning, member: str, module: Module, node, depth: int) -> Meaning:
        if of.kind == "svc":
            return Meaning("svc", path=(*of.path, member))
        if of.kind == "outside":
            return Meaning("outside", name=f"{of.name}.{member}")
        if of.kind == "module":
            source = self._project.by_name(of.name)
            child = f"{of.name}.{member}"
            found = None if source is None else self.lookup(source, member, _END, depth + 1)
            if found is not None and found.kind != "unknown":
                return found
            if self._project.has(child):
                return Meaning("module", name=child)
            return found or _unknown(f"{child} is not a module of the project")
        if of.kind == "definition":
            return self._class_member(of, member, depth)
        if of.kind == "expression":
            return Meaning("expression", module=module, node=node)
        return of

    def _class_member(self, of: Meaning, member: str, depth: int) -> Meaning:
        """A constant in the body of a class of the project: `Config.PACKAGES`."""
        statements = of.node.body if type(of.node) is ast.ClassDef else []
        for statement in reversed(statements):
            targets = statement.targets if type(statement) is ast.Assign else [getattr(statement, "target", None)]
            named = any(type(target) is ast.Name and target.id == member for target in targets)
            value = getattr(statement, "value", None)
            if named and type(statement) in (ast.Assign, ast.AnnAssign) and value is not None:
                return self.meaning(of.module, value, start(of.node), depth + 1)
        return _unknown(f"{member} is not a constant of the class")
