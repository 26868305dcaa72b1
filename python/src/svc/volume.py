"""A volume of the environment, by its name."""

from __future__ import annotations

_NAME_MAX_CHARS = 63


class Volume:
    """Stands in `volume=` and `volumes=` for a folder that stays when workers end and code is deployed again.

        @Endpoint(name="chat", volumes={"/models": Volume("models", read_only=True), "/out": Volume("out")})
        def chat(text: str):
            weights = open("/models/weights.bin", "rb")

    name: 1 to 63 of `a-z`, `0-9`, `-` and `_`, a letter or digit first. Every endpoint of the environment that names it
        has the same files.
    size_limit: `"500MB"`, `"100GB"`, `"2TB"` (powers of 1000). The platform measures the volume every minute; above the
        limit it starts no workers that may write to it and takes no uploads. A worker that runs is not held up.
    read_only: this endpoint cannot change it.

    Raises ValueError for a name that no volume can have, and for a size that is none.
    """

    __slots__ = ("name", "read_only", "size_limit")

    name: str
    size_limit: str | None
    read_only: bool

    def __init__(self, name: str, *, size_limit: str | None = None, read_only: bool = False) -> None:
        if not isinstance(name, str) or not _is_name(name):
            raise ValueError(f"{name!r} cannot name a volume: a-z, 0-9, - and _ only, a letter or digit first")
        if size_limit is not None and not _is_size(size_limit):
            raise ValueError(f'size_limit cannot be {size_limit!r}: a whole number with MB, GB or TB, such as "100GB"')
        self.name = name
        self.size_limit = size_limit
        self.read_only = bool(read_only)

    def __repr__(self) -> str:
        options = f", size_limit={self.size_limit!r}" if self.size_limit else ""
        return f"Volume({self.name!r}{options}{', read_only=True' if self.read_only else ''})"


def _is_name(text: str) -> bool:
    plain = text.replace("_", "a").replace("-", "a")
    fits = plain.isascii() and plain.isalnum() and plain == plain.lower() and len(text) <= _NAME_MAX_CHARS
    return fits and text[0] not in "-_"


def _is_size(text: str) -> bool:
    digits = text[:-2] if isinstance(text, str) and text[-2:] in ("MB", "GB", "TB") else ""
    return digits.isascii() and digits.isdigit() and digits[0] != "0" and len(digits) <= 6
