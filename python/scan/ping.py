"""Routes named /ping of ASGI applications: the runtime answers that path itself, so they would be asked in vain."""

from __future__ import annotations

import _ast as ast

from scan.module import Module, Place, Project, children

_TEXTS = ('"/ping"', "'/ping'")
#: What other frameworks call what makes a route of a path and a function.
_MAKERS = ("Route", "WebSocketRoute", "APIRoute", "add_route", "add_api_route", "add_websocket_route", "path")


def shadowed(project: Project, uses: list[dict], reach: dict[str, list[str] | None]) -> list[dict]:
    """A finding for each, in the files that the code of endpoints with an application may need."""
    serving = {use["file"] for use in uses if use["route"] is not None and use["route"]["method"] == "ANY"}
    files = {path for file in serving for path in (reach[file] or [file])}
    declared = [use["route"]["path"]["at"] for use in uses if use["route"] is not None and use["route"]["path"]]
    found: list[dict] = []
    for path in sorted(files):
        text = project.texts[path]
        if text is not None and any(each in text for each in _TEXTS):
            places = _places(project.by_path(path))
            found.extend({"rule": "shadowed-ping", "at": at, "name": ""} for at in places if at not in declared)
    return found


def _places(module: Module) -> list[Place]:
    places, waiting = [], [module.tree]
    while waiting:
        node = waiting.pop()
        calls = [each for each in getattr(node, "decorator_list", ()) if type(each) is ast.Call]
        if type(node) is ast.Call and getattr(node.func, "attr", getattr(node.func, "id", "")) in _MAKERS:
            calls.append(node)
        for call in calls:
            named = (each.value for each in call.keywords if each.arg == "path")
            given = call.args[0] if call.args else next(named, None)
            if type(given) is ast.Constant and given.value == "/ping":
                places.append(module.place(given))
        waiting.extend(children(node))
    return places
