"""Options of a declared class, and the same class with other values of them as an endpoint of its own."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Sequence, TypeVar

    T = TypeVar("T")

ENDPOINT = "__svc_endpoint__"
"""Of a declared class: its endpoint."""
_DECLARED = "__svc_options__"


def option(default: T, *, choices: Sequence[T] = ()) -> T:
    """Declares an option in the body of a class, as an attribute with a default.

        @Endpoint(name="model")
        class Model:
            size: str = svc.option("small", choices=["small", "large"])

        Large = Model.with_options(size="large", gpu=GpuGroup.ADA_80_PRO)     # the endpoint model-large

    default: any JSON value; `choices`: the values there are, without them every JSON value. In methods, `__init__` too,
    `self.size` is the value. Raises TypeError for what is no JSON, ValueError for a default that is no choice.
    """
    declared: Any = _Option(default, tuple(choices))
    return declared  # type: ignore[no-any-return]


class _Option:
    def __init__(self, default: Any, choices: tuple[Any, ...]) -> None:
        self.default = default
        self.choices = choices
        for value in (default, *choices):
            self.check("an option", value)

    def __set_name__(self, cls: type, name: str) -> None:
        """The class has the default in its place."""
        setattr(cls, _DECLARED, {**getattr(cls, _DECLARED, {}), name: self})
        setattr(cls, name, self.default)

    def check(self, name: str, value: Any) -> None:
        if not _is_json(value):
            raise TypeError(f"{name} takes a JSON value, not {value!r}")
        if self.choices and value not in self.choices:
            raise ValueError(f"{name} is one of {', '.join(map(repr, self.choices))}, not {value!r}")


def with_options(cls: type[T], /, **given: Any) -> type[T]:
    """A declared class with other values of its options: an endpoint of its own, with workers of its own.

    given: options that the class declares with `svc.option`, and parameters of `Endpoint`, in the place of those of the class's
        own. Without `name=` it is called like the class's endpoint with the values behind it: `model-large`.

    Stands at the top level of a file: the build deploys what it finds there, so nobody can make more of them. The same as
    `cls.with_options(…)`, which type checkers do not know. Raises TypeError for a class that no `Endpoint` declares and for
    options that it does not have.
    """
    base: Any = vars(cls).get(ENDPOINT)
    if base is None:
        raise TypeError(f"{cls!r} is no class that an Endpoint declares")
    parameters = base.parameters
    settings = {name: value for name, value in given.items() if name in parameters}
    values = {name: value for name, value in given.items() if name not in parameters}
    declared: dict[str, _Option] = getattr(cls, _DECLARED, {})
    for name, value in values.items():
        if name not in declared:
            has = ", ".join(declared) or "no options"
            raise TypeError(f"{cls.__name__} has no option {name!r}: it has {has}, and takes the parameters of Endpoint")
        declared[name].check(f"{cls.__name__}.{name}", value)
    left_out = {"gpu": "cpu", "cpu": "gpu"}
    inherited = {name: value for name, value in base.settings.items() if left_out.get(name) not in settings}
    name = variant_name(str(base.name), {each: values[each] for each in declared if each in values})
    variant: type[T] = type(cls.__name__, (cls,), {**values, "__doc__": cls.__doc__, "__module__": _caller()})
    type(base)(**{**inherited, "name": name, **settings})(variant)
    return variant


def variant_name(base: str, values: dict[str, Any]) -> str:
    """As the build calls it: `model` with `size="large"` is `model-large`."""
    from svc.names import suggested_name

    parts = [(name if value else f"no-{name}") if isinstance(value, bool) else str(value) for name, value in values.items()]
    return suggested_name("-".join((base, *parts)))


def _caller() -> str:
    """Name of the module that makes the variant: its workers import that."""
    import sys

    frame = sys._getframe(1)
    while frame.f_globals.get("__name__", "").startswith("svc.") and frame.f_back is not None:
        frame = frame.f_back
    return str(frame.f_globals["__name__"])


def _is_json(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_json, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(each) for key, each in value.items())
    return value is None or isinstance(value, (str, int, float, bool))
