"""Arguments of a call by name, checked against the function's own signature before anything is sent."""

from __future__ import annotations

import inspect
from weakref import WeakKeyDictionary

from svc._values import codec, tagged
from svc.errors import NotSendable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from svc.remote_function import RemoteFunction

_signatures: WeakKeyDictionary[Any, inspect.Signature] = WeakKeyDictionary()


def bind(function: RemoteFunction[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Raises TypeError as Python does."""
    signature = _signature_of(function)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{function.__name__}{signature}: {error}") from None
    given: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            given.update(value)
        elif kind is inspect.Parameter.VAR_POSITIONAL:
            raise TypeError(f"{function.__name__}{signature}: *{name} cannot be sent, arguments go by their names")
        else:
            given[name] = value
    if tagged.TAG in given:
        raise TypeError(f"{function.__name__}: the argument {tagged.TAG!r} is reserved")
    return given


def _signature_of(function: RemoteFunction[..., Any]) -> inspect.Signature:
    plain = function.__wrapped__
    found = _signatures.get(plain)
    if found is None:
        found = inspect.signature(plain)
        if function.method:  # of a class: self is the endpoint's instance
            found = found.replace(parameters=list(found.parameters.values())[1:])
        _signatures[plain] = found
    return found


def to_json(given: dict[str, Any], function_name: str) -> dict[str, Any]:
    """The arguments with their tags. Raises NotSendable naming the argument and the place inside it."""
    done = {}
    for name, value in given.items():
        try:
            done[name] = tagged.to_json(value, name)
        except codec.NotJson as error:
            raise NotSendable(f"{function_name}(): the argument cannot be sent: {error}") from None
    return done


def text_of(value: Any) -> bytes:
    return codec.encode(value, "argument")


def result_hints(function: Any) -> tuple[Any, ...]:
    """Annotations that may describe the function's result, or each chunk of a generator."""
    if function is None:
        return ()
    from typing import get_args

    from svc._values.tag_hints import alternatives
    from svc._values.type_hints import type_hints

    hint = type_hints(function).get("return")
    if hint is not None and is_generator(function):
        arguments = get_args(hint)
        return alternatives(arguments[0]) if arguments else ()
    return alternatives(hint)


def is_generator(function: Any) -> bool:
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
