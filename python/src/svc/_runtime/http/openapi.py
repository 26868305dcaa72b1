"""The OpenAPI 3.1 document of a load-balanced endpoint, made from its declarations."""

from __future__ import annotations

from svc._runtime.http.forms import File
from svc._values.json_schema import Schemas
from svc._values.signature import EMPTY

_PROBLEM = {
    "type": "object",
    "properties": {
        "detail": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "loc": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}},
                    "msg": {"type": "string"},
                    "type": {"type": "string"},
                },
                "required": ["loc", "msg", "type"],
            },
        }
    },
}


def openapi(table) -> dict:
    """The document of a RouteTable."""
    schemas = Schemas()
    paths: dict = {}
    for path, methods in table.by_path.items():
        shown = _without_converters(path)
        for method, route in methods.items():
            if method == "WEBSOCKET":  # OpenAPI has no words for it
                continue
            paths.setdefault(shown, {})[method.lower()] = _operation(route, method, path, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": table.name, "version": "1"},
        "paths": paths,
        "components": {
            "schemas": {**schemas.definitions, "Problems": _PROBLEM},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}],
    }


def _without_converters(path: str) -> str:
    import re

    return re.sub(r"\{([^}:]+):[^}]*\}", r"{\1}", path)


def _operation(route, method: str, path: str, schemas: Schemas) -> dict:
    function = route.function
    name = getattr(function, "__name__", path)
    doc = _text_of(function)
    operation: dict = {"operationId": f"{name}_{method.lower()}", "summary": name.replace("_", " ").capitalize()}
    if doc:
        operation["description"] = doc
    parameters, fields, whole = _places(route, method, schemas)
    if parameters:
        operation["parameters"] = parameters
    body = _body(fields, whole, schemas)
    if body is not None:
        operation["requestBody"] = body
    operation["responses"] = _responses(route, schemas, bool(parameters or body))
    return operation


def _text_of(function) -> str:
    doc = getattr(function, "__doc__", None) or ""
    lines = doc.expandtabs().splitlines()
    if not lines:
        return ""
    indents = [len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()]
    cut = min(indents, default=0)
    return "\n".join([lines[0].strip(), *(line[cut:].rstrip() for line in lines[1:])]).strip()


def _places(route, method: str, schemas: Schemas):
    """(path and query parameters, fields of the body, the parameter that takes the body whole)."""
    parameters, fields, whole = [], [], None
    plan = route.plan
    takes_body = method in ("POST", "PUT", "PATCH")
    members = [one for one in plan.parameters if one[3] == "member"]
    for name, hint, default, place in plan.parameters:
        if place == "upload":
            whole = (name, None, default)
        elif place == "path":
            parameters.append({"name": name, "in": "path", "required": True, "schema": schemas.of(hint)})
        elif not takes_body:
            schema = _with_default(schemas.of(hint), default)
            parameters.append({"name": name, "in": "query", "required": default is EMPTY, "schema": schema})
        elif len(members) == 1 and any(one[0] == name and (one[2] == "object" or hint is bytes) for one in plan._whole):
            whole = (name, hint, default)
        else:
            fields.append((name, hint, default))
    return parameters, fields, whole


def _body(fields: list, whole, schemas: Schemas) -> dict | None:
    if whole is not None:
        name, hint, default = whole
        if hint is None or hint is bytes:
            content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
        else:
            content = {"application/json": {"schema": schemas.of(hint)}}
        return {"required": default is EMPTY, "content": content}
    if not fields:
        return None
    has_file = any(hint is bytes or hint is File for _, hint, _ in fields)
    properties = {name: _with_default(schemas.of(hint), default) for name, hint, default in fields}
    schema: dict = {"type": "object", "properties": properties}
    required = [name for name, _, default in fields if default is EMPTY]
    if required:
        schema["required"] = required
    kind = "multipart/form-data" if has_file else "application/json"
    return {"required": bool(required), "content": {kind: {"schema": schema}}}


def _with_default(schema: dict, default) -> dict:
    if default is EMPTY or default is None:
        return schema
    value = getattr(default, "value", default)
    return {**schema, "default": value} if isinstance(value, (str, int, float, bool, list, dict)) else schema


def _responses(route, schemas: Schemas, can_misfit: bool) -> dict:
    returned = schemas.returned(route.function)
    responses = {"200": {"description": "OK", **({"content": returned} if returned else {})}}
    if can_misfit:
        reference = {"$ref": "#/components/schemas/Problems"}
        responses["422"] = {
            "description": "The request does not fit the function's parameters",
            "content": {"application/json": {"schema": reference}},
        }
    return responses
