"""Names of apps and endpoints."""

from __future__ import annotations

NAME_MAX_CHARS = 63
_ALLOWED = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-")


def suggested_name(name: str) -> str:
    """The closest valid name: "My App!" → "my-app"."""
    if not name.isascii():
        from unicodedata import normalize

        name = normalize("NFKD", name)
    spaced = "".join(each if each in _ALLOWED else " " for each in name.lower())
    return "-".join(spaced.split()).strip("-_")[:NAME_MAX_CHARS] or "app"
