"""What an expression is worth, as far as it can be known without running it."""

from __future__ import annotations


class Value:
    """`kind` says what `data` is:

    string, boolean      str, bool
    number               int or float
    none                 nothing
    list                 Values; `extra`: it is a tuple
    dict                 pairs of Values
    gpu                  (family, member): GpuType.X or GpuGroup.X
    environment          (name, fallback): os.environ["NAME"] and its kin: read where the build runs
    secret               name: Secret("NAME")
    made                 (class, pairs of a keyword or None and a Value): Volume("x"), NetworkVolume("x") and their kin
    class                dotted name of an exception, in on= of Retries()
    unknown              why
    """

    __slots__ = ("data", "extra", "kind", "place", "size")

    def __init__(self, kind: str, data, place, extra: bool = False, size: int = 1) -> None:
        self.kind = kind
        self.data = data
        self.place = place
        self.extra = extra
        #: Of the whole tree, in about its number of parts.
        self.size = size

    def at(self, place) -> Value:
        return Value(self.kind, self.data, place, self.extra, self.size)

    def plain(self):
        """As Python has it; what is not known is like nothing else."""
        if self.kind == "list":
            items = [item.plain() for item in self.data]
            return tuple(items) if self.extra else items
        if self.kind == "dict":
            return {_hashable(key.plain()): value.plain() for key, value in self.data}
        return self.data if self.kind in ("string", "boolean", "number", "none") else object()

    def to_json(self) -> dict:
        kind, data = self.kind, self.data
        shown: dict = {"kind": kind, "at": self.place}
        if kind == "list":
            shown["items"] = [item.to_json() for item in data]
            shown["tuple"] = self.extra
        elif kind == "dict":
            shown["entries"] = [[key.to_json(), value.to_json()] for key, value in data]
        elif kind == "gpu":
            shown["family"], shown["member"] = data
        elif kind == "environment":
            shown["name"] = data[0]
            if data[1] is not None:
                shown["fallback"] = data[1].to_json()
        elif kind == "made":
            shown["class"] = data[0]
            shown["arguments"] = [[name, value.to_json()] for name, value in data[1]]
        elif kind in ("secret", "class"):
            shown["name"] = data
        elif kind == "unknown":
            shown["why"] = data
        elif kind != "none":
            shown["value"] = data
            if kind == "number":
                shown["float"] = isinstance(data, float)
        return shown


def _hashable(key):
    return key if isinstance(key, (str, int, float, bool, type(None))) else repr(key)
