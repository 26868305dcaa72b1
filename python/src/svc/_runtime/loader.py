"""Loads an endpoint's functions: handler files call `load_endpoint`; workers and zygotes call `load_handler`."""

from __future__ import annotations

import os
import sys
from importlib import import_module

from svc import declared_class, this_worker
from svc._values.conversion import conversion
from svc._values.failure import BootFailure, describe
from svc._values.signature import Signature, is_async
from svc.endpoint import DECLARED
from svc.remote_function import RemoteFunction, plain
from svc.lifecycle import SHARED, marked


class Target:
    """One function or class of the endpoint."""

    __slots__ = ("is_class", "name", "value")

    def __init__(self, name: str, value, is_class: bool) -> None:
        self.name = name
        self.value = value
        self.is_class = is_class


class Callable:
    """A function ready to be called with a job's input."""

    __slots__ = ("call", "conversion", "is_async", "name", "signature")

    def __init__(self, name: str, call) -> None:
        self.name = name
        self.call = call
        self.signature = Signature(call, name)
        self.conversion = conversion(self.signature)
        self.is_async = is_async(call)


class LoadedEndpoint:
    """What a handler file defines: an endpoint's functions, imported but not instantiated."""

    def __init__(self, name: str, kind: str, targets: list[Target], routes: dict, server: dict | None = None) -> None:
        self.name = name
        self.kind = kind
        self.targets = targets
        self.routes = routes
        """(METHOD, path) to function; empty for a queue-based endpoint."""
        self.server = server
        """The command that answers its requests, and how to reach it; None: its functions do."""
        self.paths: list[str] = []
        """Where its code and packages are."""
        self._requests = None
        self.instances: dict[type, object] = {}
        """Of class endpoints, once share() or callables() has made them."""

    def functions(self) -> list:
        """Every function and public method, before any instance is made."""
        found = list(self.routes.values())
        for target in self.targets:
            found += _methods_of(target.value).values() if target.is_class else [target.value]
        return found

    def calls_others(self) -> bool:
        """Whether its functions, or what they call by name, name another endpoint's function: they will call it."""
        seen = set()
        waiting = self.functions()
        while waiting:
            function = plain(waiting.pop())
            if hasattr(function, "__svc_batched__"):
                function = function.__svc_batched__
            code = getattr(function, "__code__", None)
            if code is None or code in seen:
                continue
            seen.add(code)
            for name in _names_of(code):
                value = getattr(function, "__globals__", {}).get(name)
                if isinstance(value, RemoteFunction) and value.endpoint.name != self.name:
                    return True
                if declared_class.is_declared(value) and all(value is not target.value for target in self.targets):
                    return True
                if hasattr(value, "__code__"):
                    waiting.append(value)
        return False

    def retries(self):
        """The declaration's `Retries`; None where it has none, or a number alone."""
        declared = next((each for each in reversed(DECLARED) if each.name == self.name), None)
        given = None if declared is None else declared.settings.get("retries")
        return given if hasattr(given, "wants") else None

    def has_application(self) -> bool:
        return self.server is not None or ("ANY", "/") in self.routes

    @property
    def pulls(self) -> bool:
        """Its program asks for jobs itself."""
        return self.server is not None and self.server.get("protocol") == "pull"

    def requests(self):
        """How requests are answered, made once (in the zygote); None for a queue-based endpoint of functions."""
        if self.pulls and self._requests is None:
            from svc._runtime.http.pull_program import PullProgram

            self._requests = PullProgram(self.server, self.paths)
        if self.server is not None and self._requests is None:
            from svc._runtime.http.proxy import ProxyRequests

            self._requests = ProxyRequests(self.server, self.paths)
        if self.kind == "load-balanced" and self._requests is None:
            from svc._runtime.http.requests import Requests
            from svc._runtime.http.routes import RouteTable

            self._requests = Requests(RouteTable(self.routes, self.name))
        return self._requests

    def prepare(self) -> None:
        """Makes what all workers share, once (in the zygote)."""
        if self.kind == "load-balanced":
            self.requests()
            return
        for function in self.functions():
            conversion(Signature(function, ""))

    def shares(self) -> list[str]:
        """What is to run once for all workers, as `Class.method`."""
        classes = [target.value for target in self.targets if target.is_class]
        return [f"{cls.__name__}.{name}" for cls in classes for name in marked(cls, SHARED)]

    def share(self) -> None:
        """Makes the instances that all workers have alike (in the zygote). Raises BootFailure."""
        try:
            for target in self.targets:
                if target.is_class and marked(target.value, SHARED):
                    self._instance(target.value)
        except BaseException as error:
            raise BootFailure(describe(error, self.name)) from None

    def _instance(self, cls: type) -> object:
        """Made where it is first asked for, with what `enter(shared=True)` marks."""
        if cls not in self.instances:
            instance = declared_class.local(cls)
            for name in marked(cls, SHARED):
                value = getattr(instance, name)()
                if hasattr(value, "__await__"):
                    value.close()
                    raise TypeError(f"{cls.__name__}.{name} is async, which @svc.enter(shared=True) cannot be: write it with def")
            self.instances[cls] = instance
        return self.instances[cls]

    def callables(self) -> dict[str, Callable]:
        """Functions by name, "" the default one. Makes the instances of class endpoints that are not there yet."""
        found: dict[str, Callable] = {}
        for target in self.targets:
            if target.is_class:
                found.update(_instance_methods(target, self._instance(target.value)))
            else:
                found[target.name] = Callable(target.name, target.value)
        if "" not in found and len(found) == 1:
            found[""] = next(iter(found.values()))
        return found


def _names_of(code) -> list[str]:
    """Names that a function's code uses, and the code of what is defined inside it."""
    names = list(code.co_names)
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            names += _names_of(constant)
    return names


def _methods_of(cls: type) -> dict:
    """Public methods by name, and `__call__` where the class has one."""
    found = {name: getattr(cls, name) for name in dir(cls) if declared_class.is_method(cls, name)}
    if any("__call__" in vars(base) for base in cls.__mro__):
        found["__call__"] = cls.__call__
    return found


def _instance_methods(target: Target, instance) -> dict[str, Callable]:
    """The methods of one instance; "" is `__call__`, or the only method."""
    names = _methods_of(target.value)
    methods = {name: Callable(f"{target.name}.{name}", getattr(instance, name)) for name in names}
    if "__call__" in methods:
        methods[""] = methods["__call__"]
    elif len(methods) == 1:
        methods[""] = next(iter(methods.values()))
    return methods


def load_endpoint(
    *, name: str, kind: str, functions: list[dict], routes: dict[str, dict], server: dict | None = None
) -> LoadedEndpoint:
    """Imports the modules of an endpoint and finds its functions.

    functions: `[{"module", "name", "kind": "function" | "class"}]`; routes: `{"GET /path": {"module", "name"}}`.
    server: `{"command", "port", "readyPath", "readyTimeout"}` of an endpoint whose requests a command answers, with
    `"protocol": "pull"` of one whose program asks for its jobs: nothing is imported then. Raises BootFailure with the cause in the user's words.
    """
    if server is not None:
        return LoadedEndpoint(name, kind, [], {}, server)
    if this_worker.LOADING:
        this_worker.loading(name)  # as its declaration has it
    targets = []
    found_routes = {}
    if kind == "load-balanced":
        for key, where in routes.items():
            method, _, path = key.partition(" ")
            if method == "ANY":
                found_routes[(method, path)] = _application(name, where)
            else:
                found_routes[(method, path)] = _find(name, where, (method, path))
    else:
        for where in functions:
            value = _find(name, where, None)
            targets.append(Target(where["name"], value, isinstance(value, type)))
    return LoadedEndpoint(name, kind, targets, found_routes)


def _find(endpoint: str, where: dict, route: tuple[str, str] | None):
    """The declared function. Two endpoints of one file may use one function name, so the declarations decide."""
    module = _import(where["module"], endpoint)
    name = where["name"]
    in_module = getattr(module, name, None)
    for declared in reversed(DECLARED):
        if declared.name != endpoint:
            continue
        if route is None:
            candidates = [f for f in declared.functions if _is_from(f, where)]
        else:
            candidates = [f for key, f in declared.routes.items() if key == route and _is_from(f, where)]
        for candidate in candidates:
            return plain(in_module) if _wraps(in_module, candidate) else candidate
    if in_module is None:
        raise BootFailure(_plain(f"{where['module']}.py has no {name!r} any more: build again"))
    return plain(in_module)


def _application(endpoint: str, where: dict):
    """The ASGI application given to `.asgi(app)`; a function without parameters makes it."""
    _import(where["module"], endpoint)
    app = next((d.application for d in reversed(DECLARED) if d.name == endpoint and d.application is not None), None)
    if app is None:
        raise BootFailure(_plain(f"{where['module']}.py gives endpoint {endpoint!r} no .asgi(app) any more: build again"))
    code = getattr(app, "__code__", None)
    if code is not None and code.co_argcount == 0 and not code.co_flags & 0x04:
        try:
            app = app()
        except BaseException as error:
            raise BootFailure(describe(error, endpoint)) from None
    if not callable(app):
        raise BootFailure(_plain(f".asgi() of endpoint {endpoint!r} was given no ASGI application but {app!r}"))
    return app


def _is_from(function, where: dict) -> bool:
    return (
        getattr(function, "__module__", None) == where["module"]
        and getattr(function, "__name__", None) == where["name"]
    )


def _wraps(outer, inner) -> bool:
    """`outer` is `inner`, or a decorated form of it."""
    while outer is not None:
        if outer is inner:
            return True
        outer = getattr(outer, "__wrapped__", None)
    return False


def _import(module: str, endpoint: str):
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name and (module == error.name or module.startswith(error.name + ".")):
            raise BootFailure(
                _plain(f"worker file {module.replace('.', '/')}.py is not in the build: is it ignored?")
            ) from None
        raise BootFailure(describe(error, endpoint)) from None
    except BootFailure:
        raise
    except BaseException as error:
        fields = describe(error, endpoint)
        if isinstance(error, SystemExit):
            fields["error_message"] = fields["error_message"].replace("the function", f"importing {module}.py", 1)
        raise BootFailure(fields) from None


def load_handler(path: str, paths: list[str], endpoint: str) -> LoadedEndpoint:
    """Puts `paths` in front of sys.path and runs the handler file. Raises BootFailure."""
    sys.path[:0] = [entry for entry in paths if entry not in sys.path]
    this_worker.loading(endpoint)
    namespace = {"__name__": "svc_handler", "__file__": path}
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        raise BootFailure(
            _plain(f"the handler file of endpoint {endpoint!r} cannot be read: {error.strerror}")
        ) from None
    try:
        exec(compile(source, path, "exec"), namespace)
    except BootFailure:
        raise
    except BaseException as error:
        raise BootFailure(describe(error, endpoint)) from None
    loaded = namespace.get("endpoint")
    if not isinstance(loaded, LoadedEndpoint):
        raise BootFailure(_plain(f"{os.path.basename(path)} defines no endpoint: build again"))
    loaded.paths = paths
    return loaded


def _plain(message: str) -> dict:
    return {"error_type": "BootFailure", "error_message": message, "error_traceback": ""}
