"""Paths below an endpoint: what a caller puts into one from elsewhere must not lead out of it, with the caller's key."""

from __future__ import annotations

import re

_SLASH = re.compile(r"/|\\|%2f|%5c", re.IGNORECASE)
_DOT = re.compile("%2e", re.IGNORECASE)


def leads_out(path: str) -> bool:
    """Whether something on the way could resolve a ".." in it, however it is written."""
    return any(_DOT.sub(".", part) == ".." for part in _SLASH.split(path.partition("?")[0]))
