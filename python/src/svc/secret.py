"""A secret of the environment, by its name."""

from __future__ import annotations

_NAME_MAX_CHARS = 63


class Secret:
    """Stands in `env=` for a secret that `svc secret set NAME` stored.

        @Endpoint(name="hello", env={"HF_TOKEN": Secret("HF_TOKEN")})
        def hello():
            token = os.environ["HF_TOKEN"]

    Workers get its value as an environment variable when they start. The value is in no file of the project, no
    artifact and no log. It cannot be read from this object, only from `os.environ` in the worker.

    Raises ValueError for a name that no secret can have.
    """

    __slots__ = ("name",)

    name: str

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not _is_name(name):
            raise ValueError(f"{name!r} cannot name a secret: letters, digits, _ - and . only, no digit first")
        self.name = name

    def __repr__(self) -> str:
        return f"Secret({self.name!r})"


def _is_name(text: str) -> bool:
    plain = text.replace("_", "a").replace("-", "0").replace(".", "0")
    return plain.isascii() and plain.isalnum() and plain[0].isalpha() and len(text) <= _NAME_MAX_CHARS
