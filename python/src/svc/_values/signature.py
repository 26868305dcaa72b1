"""Parameters of a function, read without `inspect` (which takes longer to import than a worker to start)."""

from __future__ import annotations

from svc._values.failure import BadInput

_VAR_POSITIONAL, _VAR_KEYWORD = 0x04, 0x08
_GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x20, 0x80, 0x200
EMPTY = object()


class Parameter:
    __slots__ = ("annotation", "default", "name")

    def __init__(self, name: str, default, annotation) -> None:
        self.name = name
        self.default = default
        self.annotation = annotation


class Signature:
    """What a call by keyword needs to know. Positional-only parameters are given by name like the others."""

    __slots__ = ("function", "names", "parameters", "positional_only", "required", "takes_any", "text_name")

    def __init__(self, function, text_name: str) -> None:
        self.text_name = text_name
        self.function, bound = _plain_function(function)
        code = getattr(self.function, "__code__", None)
        if code is None:
            self._from_inspect(function)
        else:
            self._from_code(self.function, code, bound)
        self.names = frozenset(parameter.name for parameter in self.parameters)
        self.required = frozenset(p.name for p in self.parameters if p.default is EMPTY)

    def _from_code(self, function, code, bound: int) -> None:
        count = code.co_argcount
        names = code.co_varnames
        defaults = function.__defaults__ or ()
        first_default = count - len(defaults)
        annotations = function.__annotations__
        self.parameters = [
            Parameter(
                names[i],
                defaults[i - first_default] if i >= first_default else EMPTY,
                annotations.get(names[i], EMPTY),
            )
            for i in range(bound, count)
        ]
        keyword_defaults = function.__kwdefaults__ or {}
        for name in names[count : count + code.co_kwonlyargcount]:
            self.parameters.append(Parameter(name, keyword_defaults.get(name, EMPTY), annotations.get(name, EMPTY)))
        self.positional_only = tuple(names[bound : code.co_posonlyargcount])
        self.takes_any = bool(code.co_flags & _VAR_KEYWORD)

    def _from_inspect(self, function) -> None:
        import inspect

        self.parameters = []
        self.takes_any = False
        positional_only = []
        for p in inspect.signature(function).parameters.values():
            if p.kind is p.VAR_KEYWORD:
                self.takes_any = True
            elif p.kind is not p.VAR_POSITIONAL:
                empty = p.empty
                default = EMPTY if p.default is empty else p.default
                annotation = EMPTY if p.annotation is empty else p.annotation
                self.parameters.append(Parameter(p.name, default, annotation))
                if p.kind is p.POSITIONAL_ONLY:
                    positional_only.append(p.name)
        self.positional_only = tuple(positional_only)

    def check(self, given: dict) -> None:
        """Raises BadInput naming every unknown and missing argument, and the signature."""
        keys = given.keys()
        if self.required <= keys and (self.takes_any or keys <= self.names):
            return
        missing = [p.name for p in self.parameters if p.default is EMPTY and p.name not in given]
        unknown = [] if self.takes_any else [key for key in given if key not in self.names]
        parts = []
        if missing:
            parts.append(f"missing {_listed('argument', missing)}")
        if unknown:
            parts.append(f"unknown {_listed('argument', unknown)}")
        raise BadInput(f"{' and '.join(parts)}; the function is {self}")

    def __str__(self) -> str:
        shown = [_shown(parameter) for parameter in self.parameters]
        if self.takes_any:
            shown.append("**kwargs")
        return f"{self.text_name}({', '.join(shown)})"


def is_async(function) -> bool:
    """Whether calling it gives a coroutine or an async generator."""
    function, _ = _plain_function(function, through_wraps=False)
    code = getattr(function, "__code__", None)
    return code is not None and bool(code.co_flags & (_COROUTINE | _ASYNC_GENERATOR))


def _plain_function(function, through_wraps: bool = True):
    """The Python function behind methods, callable objects and functools.wraps; how many parameters are bound."""
    bound = 0
    while True:
        if through_wraps and hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        elif hasattr(function, "__func__"):
            function = function.__func__
            bound = 1
        elif not hasattr(function, "__code__") and not isinstance(function, type):
            call = getattr(type(function), "__call__", None)
            if hasattr(call, "__code__"):
                return call, 1
            return function, bound
        else:
            return function, bound


def _listed(noun: str, names: list[str]) -> str:
    return f"{noun}{'s' if len(names) > 1 else ''} {', '.join(repr(name) for name in names)}"


def _shown(parameter: Parameter) -> str:
    text = parameter.name
    annotation = parameter.annotation
    if annotation is not EMPTY:
        if not isinstance(annotation, str):
            annotation = (
                annotation.__name__
                if isinstance(annotation, type) and not hasattr(annotation, "__args__")
                else repr(annotation)
            )
        text += f": {annotation}"
    if parameter.default is not EMPTY:
        text += f" = {parameter.default!r}" if annotation is not EMPTY else f"={parameter.default!r}"
    return text
