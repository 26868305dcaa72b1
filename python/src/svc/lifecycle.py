"""`@enter` and `@exit`: methods of a declared class that run when a worker begins and when it ends."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, TypeVar, overload

    F = TypeVar("F", bound=Callable[[Any], object])
else:

    def overload(function):
        return function


ENTER, SHARED, EXIT = "enter", "enter(shared=True)", "exit"
_MARK = "__svc_lifecycle__"


@overload
def enter(method: F, /) -> F: ...
@overload
def enter(*, shared: bool = False) -> Callable[[F], F]: ...
def enter(method: Any = None, /, *, shared: bool = False) -> Any:
    """Marks a method of a declared class that runs once in each worker, before its first job.

        @Endpoint(name="model")
        class Model:
            @svc.enter(shared=True)
            def load(self):
                self.weights = read_weights()

            @svc.enter
            def connect(self):
                self.database = connect()

            def predict(self, text: str) -> float: ...

    shared: run once in the process that workers are forked from, as does `__init__` then. What it leaves in `self` is there
        in every worker at once, and its memory is shared until it is written to. It cannot be async, and may leave no
        thread, socket, event loop or initialised CUDA behind.

    It takes no parameters but `self` and may be async where a method of the class is. Of several, the shared ones run first, then in
    their order, those of base classes before. A worker where one raises takes no jobs; the exception is in the endpoint's log.
    It is no method that jobs can call. Raises TypeError for what is no function.
    """
    mark = SHARED if shared else ENTER
    return _marked(method, mark) if method is not None else lambda method: _marked(method, mark)


def exit(method: F, /) -> F:
    """Marks a method of a declared class that runs once in each worker, after its last job and also when it is stopped,
    within the time that a worker has to stop; not when it is killed, or when its `enter` has failed.

    It takes no parameters but `self` and may be async where a method of the class is. What it raises is in the endpoint's log.
    It is no method that jobs can call. Raises TypeError for what is no function.
    """
    return _marked(method, EXIT)


def _marked(method: F, mark: str) -> F:
    if isinstance(method, type) or not callable(getattr(method, "__func__", method)):
        raise TypeError(f"@svc.{mark} marks a method of a class, not {method!r}")
    setattr(method, _MARK, mark)
    return method


def mark_of(method: object) -> str:
    """"" for one that is not marked."""
    mark = getattr(method, _MARK, "")
    return mark if isinstance(mark, str) else ""


def marked(cls: type, mark: str) -> list[str]:
    """Names of the methods with this mark, those of base classes first."""
    found: dict[str, object] = {}
    for base in reversed(cls.__mro__):
        found.update(vars(base))
    return [name for name, value in found.items() if mark_of(value) == mark]
