"""Finds every Endpoint(...) of a module and what is decorated with it; says nothing about settings yet."""

from __future__ import annotations

import _ast as ast

from scan.batching import Batching
from scan.describe import describe
from scan.lifecycle import Lifecycle
from scan.fold import Folder
from scan.module import FUNCTIONS, Module, Place, children
from scan.names import Meaning, Names
from scan.scope import imported
from scan.variants import Variants

_DEFINITIONS = (*FUNCTIONS, ast.ClassDef)
#: Packages whose projects build here once their import line names svc.
_FAMILY = ("runpod_flash", "tetra_rp")
_INSIDE = (*_DEFINITIONS, ast.Lambda)
#: Have nothing below them that is looked for.
_LEAVES = (ast.Name, ast.Constant, ast.Load, ast.Store, ast.Del, ast.Pass, ast.alias)


#: The route of an application, and of a server.
_EVERYTHING = {"method": "ANY", "path": None}


class Finder:
    def __init__(self, names: Names, folder: Folder) -> None:
        self._names = names
        self._folder = folder
        #: Each Endpoint(...) by its key, which is the same wherever the object is seen.
        self.objects: dict[str, dict] = {}
        #: Keys of those that a top-level name stands for.
        self.named: list[str] = []
        self.uses: list[dict] = []
        #: What is decorated, by its key.
        self.functions: dict[str, dict] = {}
        self.findings: list[dict] = []
        #: Each Endpoint(image=…) that stands by itself: it may decorate something elsewhere.
        self._images: list[tuple] = []
        #: Each call that starts a program which pulls jobs: of no use, unless an endpoint runs such a program.
        self._starts: list[tuple] = []
        self._runs_program = False
        self._lifecycle = Lifecycle(names, self._finding)
        self._variants = Variants(names, folder, self._finding)
        self._batching = Batching(names, folder, self._finding)

    def look(self, module: Module) -> None:
        for statement in module.tree.body:
            if type(statement) is ast.ImportFrom and statement.module == "svc" and not statement.level:
                for alias in statement.names:
                    self._finding("svc-name", module.place(alias), alias.name)
            if type(statement) is ast.ImportFrom and statement.module in _FAMILY and not statement.level:
                self._finding("other-package", module.place(statement), statement.module)
        walk = _Walk(module)
        seen: set[int] = set()
        for definition, top in walk.decorated:
            for decorator in definition.decorator_list:
                self._decorator(module, definition, decorator, top, seen)
        self._lifecycle.look(module, walk.decorated, walk.classes)
        for call, top in walk.calls:
            called = call.func
            if top and type(called) is ast.Attribute and called.attr == "asgi" and id(call) not in walk.decorators:
                self._application(module, call, seen)
            if type(called) is ast.Attribute and called.attr == "start":
                meaning = self._names.meaning(module, called)
                if meaning.name == "runpod.serverless.start" or meaning.path == ("serverless", "start"):
                    self._starts.append((module.place(call), meaning.name))
        for bindings in self._names.scope(module).bindings.values():
            for binding in bindings:
                if binding.kind != "value":
                    continue
                meaning = self._names.meaning(module, binding.node)
                key = self._object(meaning)
                if key is not None and meaning.module is module:
                    self.named.append(key)
                    seen.add(id(meaning.node))
        for call, top in walk.calls:
            if not top or id(call) in walk.decorators or not _given(call, "command", "image"):
                continue
            key = self._object(self._names.meaning(module, call))
            if key is None:
                continue
            if _given(call, "command"):
                pulls = self._pulls(module, call)
                self._runs_program |= pulls
                self._use(module, key, call, module.place(call), None if pulls else _EVERYTHING, True)
            else:
                self._images.append((key, module, call))
            seen.add(id(call))
        for call, _top in walk.calls:
            if id(call) in seen or id(call) in walk.decorators or type(call.func) not in (ast.Name, ast.Attribute):
                continue
            if self._names.meaning(module, call.func).is_endpoint_class and not _is_client(call):
                self._finding("unused-endpoint", module.place(call))

        for call, of in self._variants.look(module, walk.calls):
            self._variant(module, call, of)

    def end(self) -> None:
        """All modules were looked at: what has an image and decorates nothing runs the image's own program."""
        used = {use["object"] for use in self.uses}
        for key, module, call in self._images:
            if key not in used:
                self._runs_program = True
                self._use(module, key, call, module.place(call), None, True)
        for place, name in self._starts:
            if not name or not self._runs_program:
                self._finding("serverless-start", place, name or "svc.serverless.start")

    def _pulls(self, module: Module, call) -> bool:
        given = next((each.value for each in call.keywords if each.arg == "protocol"), None)
        return given is not None and self._folder.fold(module, given).to_json().get("value") == "pull"

    def _variant(self, module: Module, call, of: Meaning) -> None:
        """An object of its own: what is given here, over what the class's own object says."""
        meanings = [self._names.meaning(of.module, decorator) for decorator in of.node.decorator_list]
        base = next((key for key in map(self._object, meanings) if key is not None), None)
        if base is None:
            self._finding("variant-class", module.place(call))
            return
        key, function = _key(module, call), _key(of.module, of.node)
        given = self._variants.given(module, call)
        variant = {"of": base, "class": of.node.name, "options": self._variants.options(of)}
        place, called = module.place(call), module.place(call.func)
        self.objects[key] = {"key": key, "at": place, "called": called, "arguments": given, "variant": variant}
        self._use(of.module, key, of.node, place, None)
        # Workers import the file that makes the variant.
        use, known = self.uses[-1], self.functions[function]
        use["file"], use["function"] = module.path, f"{function} {key}"
        self.functions[use["function"]] = {**known, "described": {**known["described"], "module": module.name}}

    def _finding(self, rule: str, place: Place, name: str = "") -> None:
        self.findings.append({"rule": rule, "at": place, "name": name})

    def _decorator(self, module: Module, definition, decorator, top: bool, seen: set[int]) -> None:
        """`@Endpoint(...)`, `@api` (queue-based), `@api.get("/x")` or `@api.asgi`."""
        meaning = self._names.meaning(module, decorator)
        route: dict | None = None
        key = self._object(meaning)
        if key is None:
            if meaning.is_endpoint_class:
                self._finding("bare-endpoint", module.place(decorator))
                return
            called = decorator.func if type(decorator) is ast.Call else decorator
            if type(decorator) is ast.Call and self._names.meaning(module, called).path == ("remote",):
                self._finding("remote-decorator", module.place(decorator), definition.name)
                return
            if type(called) is not ast.Attribute:
                return
            meaning = self._names.meaning(module, called.value)
            key = self._object(meaning)
            route = None if key is None else self._route(module, decorator, called)
            if key is None or route is None:
                return
        if meaning.module is module:
            seen.add(id(meaning.node))
        place = _from_sign(module, decorator)
        if top:
            self._use(module, key, definition, place, route)
        else:
            self._finding("nested-endpoint", place)

    def _application(self, module: Module, call, seen: set[int]) -> None:
        """A call `api.asgi(app)`: the definition is the call's argument."""
        meaning = self._names.meaning(module, call.func.value)
        key = self._object(meaning)
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        if key is None or not given:
            return
        if meaning.module is module:
            seen.add(id(meaning.node))
        self._use(module, key, given[0], module.place(call), _EVERYTHING)

    def _use(
        self, module: Module, key: str, definition, place: Place, route: dict | None, is_server: bool = False
    ) -> None:
        function = _key(module, definition)
        if function not in self.functions:
            found = _imports_inside(module, definition)

            def is_mark(decorator) -> bool:
                return bool(self._lifecycle.mark(module, decorator))

            def batch_size(function) -> int:
                return self._batching.size(module, function)

            described = describe(self._names, module, definition, is_mark, is_server, batch_size)
            self.functions[function] = {"described": described, "imports": found}
        use = {"object": key, "file": module.path, "function": function, "at": place, "route": route}
        self.uses.append({**use, "server": True} if is_server else use)

    def _route(self, module: Module, decorator, called) -> dict | None:
        name = called.attr
        if name == "asgi":
            return _EVERYTHING
        given = decorator.args if type(decorator) is ast.Call else []
        by_name = {each.arg: each.value for each in decorator.keywords} if type(decorator) is ast.Call else {}

        def argument(position: int, keyword: str):
            return given[position] if len(given) > position else by_name.get(keyword)

        if name not in ("route", "get", "post", "put", "patch", "delete", "head", "options", "websocket"):
            column = max(0, called.end_col_offset - len(name.encode()))
            place = module.span(called.end_lineno, column, called.end_lineno, called.end_col_offset)
            self._finding("unknown-method", place, name)
            return None
        is_route = name == "route"
        path = argument(1 if is_route else 0, "path")
        method = getattr(argument(0, "method"), "value", None) if is_route else name
        if path is None or not isinstance(method, str) or not method.isidentifier():
            self._finding("route-path", module.place(decorator), name)
            return None
        found = {"method": method.upper(), "path": self._folder.fold(module, path).to_json()}
        if "public" in by_name:
            found["public"] = self._folder.fold(module, by_name["public"]).to_json()
        return found

    def _object(self, meaning: Meaning) -> str | None:
        """The key of the Endpoint object that an expression stands for, when it is one."""
        module, call = meaning.module, meaning.node
        if meaning.kind != "expression" or type(call) is not ast.Call or _is_client(call):
            return None
        if not self._names.meaning(module, call.func).is_endpoint_class:
            return None
        key = _key(module, call)
        if key not in self.objects:
            arguments = [self._argument(module, None, module.place(each), each) for each in call.args]
            for each in call.keywords:
                place = module.place(each)
                if each.arg:
                    column = each.col_offset + len(each.arg.encode())
                    place = module.span(each.lineno, each.col_offset, each.lineno, column)
                arguments.append(self._argument(module, each.arg or "**", place, each.value))
            place, called = module.place(call), module.place(call.func)
            self.objects[key] = {"key": key, "at": place, "called": called, "arguments": arguments}
        return key

    def _argument(self, module: Module, name: str | None, place: Place, value) -> dict:
        return {"name": name, "at": place, "value": self._folder.fold(module, value).to_json()}


class _Walk:
    """What is looked for in a tree, in the order of the source, with whether importing the module runs it."""

    def __init__(self, module: Module) -> None:
        self.decorated: list[tuple] = []
        self.calls: list[tuple] = []
        self.decorators: set[int] = set()
        self.classes: list = []
        waiting: list[tuple] = [(module.tree, True)]
        while waiting:
            node, top = waiting.pop()
            kind = type(node)
            if kind is ast.Call:
                self.calls.append((node, top))
            elif kind in _INSIDE:
                if kind is ast.ClassDef:
                    self.classes.append(node)
                if kind is not ast.Lambda and node.decorator_list:
                    self.decorated.append((node, top))
                    self.decorators.update(map(id, node.decorator_list))
                    waiting.extend((each, top) for each in node.decorator_list)
                    waiting.extend((each, False) for each in children(node) if id(each) not in self.decorators)
                    continue
                top = False
            below = [each for each in children(node) if type(each) not in _LEAVES]
            waiting.extend((each, top) for each in reversed(below))


def _key(module: Module, node) -> str:
    return f"{module.path}:{node.lineno}:{node.col_offset}"


def _given(call, *keywords: str) -> bool:
    """`Endpoint(command=[…])` and `Endpoint(image="…")` are whole without anything that they decorate."""
    return any(keyword.arg in keywords for keyword in call.keywords)


def _is_client(call) -> bool:
    """`Endpoint(id="…")` calls an endpoint and declares none."""
    return any(keyword.arg == "id" for keyword in call.keywords)


def _from_sign(module: Module, decorator) -> Place:
    """The decorator with its @."""
    sign = module.lines[decorator.lineno - 1][: decorator.col_offset].rfind(b"@")
    start = decorator.col_offset if sign == -1 else sign
    return module.span(decorator.lineno, start, decorator.end_lineno, decorator.end_col_offset)


def _imports_inside(module: Module, definition) -> list[dict]:
    """Imports of a function's own; one that stands in a try may fail."""
    found: list[dict] = []
    waiting = [(definition, False)]
    while waiting:
        node, guarded = waiting.pop()
        if type(node) in (ast.Import, ast.ImportFrom):
            names = [] if guarded else imported(module, node)
            found.extend({"module": each, "at": module.place(node)} for _, each, _, _ in names if each is not None)
            continue
        tried = [id(each) for each in node.body] if type(node).__name__ in ("Try", "TryStar") else ()
        waiting.extend((each, id(each) in tried) for each in children(node))
    return found
