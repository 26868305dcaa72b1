"""A full HTTP response, for routes that need more than a JSON body."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping


class Response:
    """What a route of a load-balanced endpoint may return when body, status and headers all matter.

    body: bytes or str (sent as they are), None (no body), a generator (streamed as it yields), or anything JSON.
    status: HTTP status code.
    headers: name to value.
    media_type: the Content-Type; default `application/octet-stream` for bytes, `text/plain; charset=utf-8` for str,
        `application/json` for the rest.
    """

    __slots__ = ("body", "headers", "media_type", "status")

    def __init__(
        self,
        body: Any = None,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        media_type: str | None = None,
    ) -> None:
        self.body = body
        self.status = status
        self.headers = dict(headers or {})
        self.media_type = media_type
