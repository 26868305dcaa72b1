"""How a job whose function raised is tried again."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Sequence, Union

    Kind = Union[type[BaseException], str]


class Retries:
    """Stands in `retries=` of a queue-based endpoint. A number alone is `Retries(max=number)`.

        @Endpoint(name="fetch", retries=Retries(max=3, delay="2s", on=(ConnectionError, "requests.exceptions.Timeout")))
        def fetch(url: str): ...

    Parameters:
        max: attempts after the first, 0 to 100.
        delay: before the second attempt: seconds, or a text such as "500ms", "2s", "5m", "1h".
        backoff: before each further attempt the wait is so many times as long, 1 to 10.
        max_delay: the longest wait, at most 24 hours.
        on: exceptions that are followed by another attempt, with those derived from them: classes, or dotted names of
            classes that need not be there to be named. Default: `Exception`.

    A job that waits for its next attempt waits in the platform's queue and survives its restart. `context().attempt` says
    which attempt runs. Not tried again: what was cancelled, what passed its time-out or ttl, arguments that do not fit,
    `{"error": …}` returned, a result that is no JSON, and generators. Raises TypeError for what `on` cannot hold.
    """

    __slots__ = ("backoff", "delay", "max", "max_delay", "on")

    max: int
    delay: str | float
    backoff: float
    max_delay: str | float
    on: tuple[Kind, ...]

    def __init__(
        self,
        max: int,
        *,
        delay: str | float = "1s",
        backoff: float = 2.0,
        max_delay: str | float = "5m",
        on: Kind | Sequence[Kind] = (Exception,),
    ) -> None:
        self.max = max
        self.delay = delay
        self.backoff = backoff
        self.max_delay = max_delay
        self.on = (on,) if isinstance(on, (type, str)) else tuple(on)
        for kind in self.on:
            if not (isinstance(kind, str) or (isinstance(kind, type) and issubclass(kind, BaseException))):
                raise TypeError(f"Retries: on= takes classes of exceptions or their dotted names, not {kind!r}")

    def wants(self, error: BaseException) -> bool:
        """Whether another attempt may follow this exception."""
        names = {name for kind in type(error).__mro__ for name in _names_of(kind)}
        return any(kind in names if isinstance(kind, str) else isinstance(error, kind) for kind in self.on)

    def __repr__(self) -> str:
        return f"Retries(max={self.max!r}, delay={self.delay!r}, backoff={self.backoff!r}, max_delay={self.max_delay!r})"


def _names_of(kind: type) -> list[str]:
    """A class of Python itself goes by its plain name too."""
    dotted = f"{kind.__module__}.{kind.__qualname__}"
    return [dotted, kind.__qualname__] if kind.__module__ == "builtins" else [dotted]
