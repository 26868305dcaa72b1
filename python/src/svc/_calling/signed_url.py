"""Signed URLs: a call of a load-balanced endpoint without a key, for a time. The platform signs them."""

from __future__ import annotations

import re
from datetime import timedelta

from svc._calling import discovery
from svc._calling.connections import Patience

TYPE_CHECKING = False
if TYPE_CHECKING:
    from svc._calling.discovery import Target

_DOCUMENT = "mutation($input:SignUrlInput!){signUrl(input:$input){url}}"
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def signed_url(name: str | None, path: str, expires: str | float | timedelta, method: str, prefix: bool) -> str:
    """Of the declared endpoint of this name."""
    return of_target(discovery.find(name, Patience()), path, expires, method, prefix)


def of_target(target: Target, path: str, expires: str | float | timedelta, method: str, prefix: bool) -> str:
    """Raises ValueError for a time that is none, PlatformError with what the platform refuses."""
    given = {
        "endpoint": target.id,
        "path": path,
        "method": method,
        "prefix": prefix,
        "expiresInSeconds": _seconds(expires),
    }
    found = discovery.query(target.platform, target.key, _DOCUMENT, {"input": given}, Patience())
    return str(found["signUrl"]["url"])


def _seconds(expires: str | float | timedelta) -> int:
    if isinstance(expires, timedelta):
        return int(expires.total_seconds())
    if isinstance(expires, str):
        match = re.fullmatch(r"([1-9]\d{0,6})([smhd])", expires.strip())
        if match is None:
            raise ValueError(f'expires is a time such as "10m", "1h" or "7d", not {expires!r}')
        return int(match.group(1)) * _UNITS[match.group(2)]
    return int(expires)
