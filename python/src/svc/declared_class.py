"""Declared classes: `Model()` in a worker of another endpoint gives the endpoint's side of it, as a call of a declared
function goes there; `Model.local()` makes an instance here.

The class itself stays what it is: only its `__new__` looks where it is called.
"""

from __future__ import annotations

from svc import lifecycle, options, remote_function, this_worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_ORIGINAL = "__svc_new__"


def declare(cls: Any, endpoint: Any) -> None:
    """From now on instances are made where the endpoint is. A class declared twice keeps its first `__new__`."""
    setattr(cls, options.ENDPOINT, endpoint)
    if _ORIGINAL in vars(cls):
        return
    original = cls.__new__

    def make(kind: Any, *args: Any, **kwargs: Any) -> Any:
        if original is not object.__new__:
            return original(kind, *args, **kwargs)
        if (args or kwargs) and kind.__init__ is object.__init__:
            raise TypeError(f"{kind.__name__}() takes no arguments")
        return object.__new__(kind)

    def __new__(kind: Any, *args: Any, **kwargs: Any) -> Any:
        if kind is not cls or not this_worker.is_elsewhere(endpoint.name):
            return make(kind, *args, **kwargs)
        if args or kwargs:
            raise TypeError(
                f"{cls.__name__}(…) with arguments in another endpoint: the workers of endpoint {endpoint.name!r} make "
                f"theirs without. {cls.__name__}() calls them; {cls.__name__}.local(…) makes one here"
            )
        return remote_function.calls.proxy_of(cls)

    if original is not object.__new__ or cls.__init__ is not object.__init__:
        setattr(__new__, "__wrapped__", cls.__init__ if original is object.__new__ else original)  # for its signature
    setattr(cls, _ORIGINAL, staticmethod(make))
    cls.__new__ = staticmethod(__new__)
    if not hasattr(cls, "local"):
        cls.local = classmethod(local)
    if not hasattr(cls, "with_options"):
        cls.with_options = classmethod(options.with_options)


def local(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """An instance in this process, wherever that is."""
    make = vars(cls).get(_ORIGINAL)
    if make is None:  # a subclass, which no endpoint declares
        return cls(*args, **kwargs)
    instance = make.__func__(cls, *args, **kwargs)
    if isinstance(instance, cls):
        instance.__init__(*args, **kwargs)
    return instance


def is_declared(value: Any) -> bool:
    return isinstance(value, type) and _ORIGINAL in vars(value)


def is_method(cls: Any, name: str) -> bool:
    """Whether the class has a public method of this name, of its own, that jobs can call."""
    value = getattr(cls, name, None)
    added = getattr(value, "__func__", None) in (local, options.with_options)
    if name.startswith("_") or not callable(value) or added:
        return False
    return not lifecycle.mark_of(value)
