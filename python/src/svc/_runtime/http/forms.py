"""Fields of `application/x-www-form-urlencoded` and `multipart/form-data` bodies."""

from __future__ import annotations

from urllib.parse import parse_qsl


class File(bytes):
    """An uploaded file: its bytes, with `filename` and `content_type`."""

    filename: str
    content_type: str


class BadForm(ValueError):
    """The body is not a form."""


def query_fields(query: str) -> dict[str, list]:
    """Values by name, in order."""
    found: dict[str, list] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        found.setdefault(name, []).append(value)
    return found


def form_fields(content_type: str, body: bytes) -> dict[str, list]:
    """Values by name: str for fields, File for files. Raises BadForm."""
    if content_type.lower().startswith("multipart/"):
        return _multipart(content_type, body)
    return query_fields(body.decode("utf-8", "replace"))


def _multipart(content_type: str, body: bytes) -> dict[str, list]:
    boundary = _parameters(content_type).get("boundary")
    if not boundary:
        raise BadForm("the multipart body has no boundary")
    mark = b"--" + boundary.encode("latin-1", "replace")
    sections = (b"\r\n" + body).split(b"\r\n" + mark)
    if len(sections) < 2 or not sections[-1].startswith(b"--"):
        raise BadForm("the multipart body ends before its last boundary")
    found: dict[str, list] = {}
    for section in sections[1:-1]:
        head, separator, content = section.partition(b"\r\n\r\n")
        if not separator:
            raise BadForm("a part of the multipart body has no headers")
        headers = _headers(head)
        parameters = _parameters(headers.get("content-disposition", ""))
        name = parameters.get("name")
        if name is None:
            raise BadForm("a part of the multipart body has no name")
        found.setdefault(name, []).append(_value(content, parameters, headers))
    return found


def _value(content: bytes, parameters: dict[str, str], headers: dict[str, str]):
    if "filename" not in parameters:
        return content.decode("utf-8", "replace")
    file = File(content)
    file.filename = parameters["filename"]
    file.content_type = headers.get("content-type", "application/octet-stream")
    return file


def _headers(head: bytes) -> dict[str, str]:
    lines = (line.partition(":") for line in head.decode("utf-8", "replace").split("\r\n") if ":" in line)
    return {name.strip().lower(): value.strip() for name, _, value in lines}


def _parameters(value: str) -> dict[str, str]:
    """`form-data; name="a"; filename="b.txt"` → {"name": "a", "filename": "b.txt"}."""
    from email.message import Message

    message = Message()
    message["content-type"] = value
    found = {}
    for name, text in (message.get_params() or [])[1:]:
        if isinstance(text, tuple):  # RFC 2231: (charset, language, text)
            from email.utils import collapse_rfc2231_value

            text = collapse_rfc2231_value(text)
        found.setdefault(name.lower(), text)
    return found
