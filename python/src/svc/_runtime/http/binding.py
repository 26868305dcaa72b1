"""Binds a request to a function's parameters. The plan is made once, when the endpoint is loaded."""

from __future__ import annotations

import json

from svc._runtime.http.forms import BadForm, form_fields, query_fields
from svc._runtime.work.upload import Upload
from svc._values import codec
from svc._values.convert import converter, is_list, takes_whole_body
from svc._values.scalars import Invalid
from svc._values.signature import EMPTY, Signature
from svc._values.type_hints import reads_upload, type_hints

_BODY_METHODS = ("POST", "PUT", "PATCH")


class Unprocessable(Exception):
    """The request does not fit: every problem as {"loc", "msg", "type"}."""

    def __init__(self, detail: list[dict]) -> None:
        super().__init__(detail)
        self.detail = detail


class Plan:
    """How one route's function gets its arguments: path parameters first, then body fields, then the query."""

    def __init__(self, function, name: str, method: str, path_names: tuple[str, ...]) -> None:
        signature = Signature(function, name)
        hints = type_hints(signature.function)
        self._function = signature.function
        self._takes_any = signature.takes_any
        self._positional_only = signature.positional_only
        self._place = "body" if method in _BODY_METHODS else "query"
        self._members = []
        self._by_path = []
        self.parameters = []
        """(name, annotation, default, "path" | "member" | "upload"), for the OpenAPI document."""
        self.socket = signature.parameters[0].name if method == "WEBSOCKET" and signature.parameters else None
        """The parameter that is the connection of a WebSocket route: the first."""
        self.upload = None
        """The parameter that reads the body as it arrives."""
        for parameter in signature.parameters:
            hint = hints.get(parameter.name, EMPTY) if parameter.annotation is not EMPTY else EMPTY
            if parameter.name == self.socket:
                continue
            place = "path" if parameter.name in path_names else "upload" if reads_upload(hint) else "member"
            self.parameters.append((parameter.name, hint, parameter.default, place))
            if place == "upload":
                self.upload = parameter.name
                continue
            convert = None if hint is EMPTY else converter(hint)
            many = hint is not EMPTY and is_list(hint)
            member = (parameter.name, convert, parameter.default is EMPTY, many)
            (self._by_path if parameter.name in path_names else self._members).append(member)
        self._simple = not self._by_path and not self._takes_any and not self._positional_only
        self._whole = self._whole_body_member(hints)

    def _whole_body_member(self, hints: dict):
        """The only parameter that can take the body as a whole, as (name, converter, kinds of body it takes)."""
        candidates = []
        for name, convert, _, _ in self._members:
            hint = hints.get(name, EMPTY)
            if hint is EMPTY:
                continue
            if takes_whole_body(hint):
                candidates.append((name, convert, "object"))
            elif is_list(hint):
                candidates.append((name, convert, "array"))
            elif hint is bytes or (hint is str and len(self._members) == 1):
                candidates.append((name, convert, "raw"))
        return candidates

    def bind(self, path_values: dict, query: str, headers, work) -> dict:
        """Arguments by name. Raises Unprocessable with all problems."""
        body = work.body
        if self.upload is not None:
            given = self._bind_slowly(path_values, query_fields(query) if query else {}, None, False)
            given[self.upload] = work.upload or Upload(body)
            return given
        data = None
        text_fields = False
        if body:
            content_type = ""
            for header, value in headers:
                if len(header) == 12 and header.lower() == "content-type":
                    content_type = value
                    break
            if content_type.startswith("application/json") or not content_type or "+json" in content_type:
                try:
                    data = self._tagged_body(body) if work.tagged else codec.decode(body)
                except ValueError as error:
                    if not self._raw_member():
                        raise _bad_json(error) from None
                    data = body
                if data.__class__ is dict and self._simple and not query:
                    given = self._from_object(data)
                    if given is not None:
                        return given
            else:
                data, text_fields = self._other_body(content_type, body)
        return self._bind_slowly(path_values, query_fields(query) if query else {}, data, text_fields)

    def _tagged_body(self, body: bytes):
        from svc._runtime.work.peer import body_of

        return body_of(body, self._function)

    def _from_object(self, data: dict) -> dict | None:
        """The quick way: a JSON object with a field for each parameter. None when the slow way must look."""
        given = {}
        try:
            for name, convert, required, _ in self._members:
                if name in data:
                    value = data[name]
                    given[name] = value if convert is None else convert(value)
                elif required or self._whole:
                    return None
        except Invalid:
            return None
        return given

    def _raw_member(self):
        return next((member for member in self._whole if member[2] == "raw"), None)

    def _other_body(self, content_type: str, body: bytes):
        kind = content_type.partition(";")[0].strip().lower()
        if kind in ("application/x-www-form-urlencoded", "multipart/form-data"):
            try:
                return form_fields(content_type, body), True
            except BadForm as error:
                raise Unprocessable([_problem(("body",), str(error), "form_invalid")]) from None
        return body, False

    def _bind_slowly(self, path_values: dict, query: dict, data, text_fields: bool) -> dict:
        problems: list[dict] = []
        given: dict = {}
        for name, convert, _, _ in self._by_path:
            _put(given, problems, name, convert, path_values[name], ("path", name))
        members = self._members
        if data is not None:
            members = self._bind_whole_body(data, text_fields, members, given, problems)
        fields = data if data.__class__ is dict else {}
        for name, convert, required, many in members:
            if name in fields:
                value = fields[name]
                if text_fields and not many:
                    value = value[-1]
                _put(given, problems, name, convert, value, ("body", name))
            elif name in query:
                _put(given, problems, name, convert, query[name] if many else query[name][-1], ("query", name))
            elif required:
                problems.append(_problem((self._place, name), "Field required", "missing"))
        if problems:
            raise Unprocessable(problems)
        if self._takes_any:
            known = {member[0] for member in self._members}
            for name, value in query.items():
                if name not in known and name not in given:
                    given[name] = value[-1] if len(value) == 1 else value
            for name, value in fields.items():
                if name not in known:
                    given[name] = value[-1] if text_fields and len(value) == 1 else value
        return given

    def _bind_whole_body(self, data, text_fields: bool, members: list, given: dict, problems: list) -> list:
        """Gives the body to the one parameter that takes it whole; returns the members that are left."""
        if data.__class__ is dict:
            kind = "object"
            names = {member[0] for member in self._members}
            if not names.isdisjoint(data):
                candidates = [m for m in self._whole if m[2] == "object" and m[0] not in data]
                if len(candidates) != 1 or len(names & data.keys()) > 0:
                    return members
        else:
            kind = "raw" if isinstance(data, bytes) else "array" if isinstance(data, list) else "scalar"
        candidates = [member for member in self._whole if member[2] == kind]
        if not candidates and len(self._members) == 1 and kind != "raw":
            candidates = [member for member in self._whole if member[2] != "raw"]  # says best what is wrong
        if len(candidates) != 1:
            if kind in ("array", "scalar") and members:
                message = "Input should be a valid dictionary or object to extract fields from"
                problems.append(_problem(("body",), message, "model_attributes_type"))
                return []
            return members
        name, convert, _ = candidates[0]
        if text_fields:
            data = {key: value[-1] if len(value) == 1 else value for key, value in data.items()}
        _put(given, problems, name, convert, data, ("body",))
        return [member for member in members if member[0] != name]


def _put(given: dict, problems: list, name: str, convert, value, place: tuple) -> None:
    if convert is None:
        given[name] = value
        return
    try:
        given[name] = convert(value)
    except Invalid as error:
        problems.extend(_problem((*place, *below), message, type) for below, message, type in error.problems)


def _problem(place: tuple, message: str, type: str) -> dict:
    return {"loc": list(place), "msg": message, "type": type}


def _bad_json(error: ValueError) -> Unprocessable:
    place = ("body", error.pos) if isinstance(error, json.JSONDecodeError) else ("body",)
    return Unprocessable([_problem(place, "JSON decode error", "json_invalid")])
