"""`@batched`: callers send one input each, the function gets lists of them and returns a list.

    call ──▶ waiting ──max_size, or wait_ms after the first──▶ function(lists) ──▶ each call its own result
    call ──▶ …           (one batch at a time; the next one gathers meanwhile)

A sync function runs in a thread of its own, an async one in a task of its own: no call's cancel or time-out gets into a
batch that others share.
"""

from __future__ import annotations

import os
from _thread import allocate_lock, start_new_thread
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from queue import SimpleQueue
    from typing import Any, Callable, Coroutine, Protocol, TypeVar, overload

    A = TypeVar("A")
    B = TypeVar("B")
    C = TypeVar("C")
    S = TypeVar("S")
    R = TypeVar("R")

    class Batching(Protocol):
        """A decorator: lists in, a list out becomes one in, one out; keyword arguments stay possible where they are."""

        @overload
        def __call__(
            self, function: Callable[[list[A]], Coroutine[Any, Any, list[R]]], /
        ) -> Callable[[A], Coroutine[Any, Any, R]]: ...
        @overload
        def __call__(
            self, function: Callable[[list[A], list[B]], Coroutine[Any, Any, list[R]]], /
        ) -> Callable[[A, B], Coroutine[Any, Any, R]]: ...
        @overload
        def __call__(
            self, function: Callable[[S, list[A]], Coroutine[Any, Any, list[R]]], /
        ) -> Callable[[S, A], Coroutine[Any, Any, R]]: ...
        @overload
        def __call__(self, function: Callable[[list[A]], list[R]], /) -> Callable[[A], R]: ...
        @overload
        def __call__(self, function: Callable[[list[A], list[B]], list[R]], /) -> Callable[[A, B], R]: ...
        @overload
        def __call__(
            self, function: Callable[[list[A], list[B], list[C]], list[R]], /
        ) -> Callable[[A, B, C], R]: ...
        @overload
        def __call__(self, function: Callable[[S, list[A]], list[R]], /) -> Callable[[S, A], R]: ...
        @overload
        def __call__(self, function: Callable[[S, list[A], list[B]], list[R]], /) -> Callable[[S, A, B], R]: ...
        @overload
        def __call__(self, function: Callable[..., Any], /) -> Callable[..., Any]: ...


MAX_SIZE, WAIT_MS = 16, 5.0
_SIZE_MAX, _WAIT_MAX_MS = 500, 60_000
_VARIADIC, _COROUTINE, _GENERATORS = 0x04 | 0x08, 0x80, 0x20 | 0x200
_LISTS = ("list", "List", "Sequence")
_LOOK_AGAIN_S = 0.1
"""A cancel is raised in a thread that waits when it next runs."""


def batched(*, max_size: int = MAX_SIZE, wait_ms: float = WAIT_MS) -> Batching:
    """Marks a function, or a method of a class, that works on many inputs at once.

        @Endpoint(name="embed")
        @svc.batched(max_size=32, wait_ms=10)
        def embed(texts: list[str], scale: list[float] = 1.0) -> list[list[float]]:
            return model(texts, scale)

    Callers send one input: `embed(texts="…")` gives one result. The function gets one list for each parameter, all of one
    length, and returns a list of that length, in the same order. A default stands for one input. An element of the
    result that is an exception fails its own call only; what the function raises fails every call of the batch.

    Parameters:
        max_size: inputs of one call of the function, 1 to 500.
        wait_ms: milliseconds that the first input of a batch waits for others, 0 to 60000.

    For queue-based endpoints and routes, sync and async. A worker takes twice `max_size` jobs or requests at once, unless
    `max_concurrency` says otherwise: one batch runs and the next gathers. A call in this process is batched too, with
    others at the same time. A cancelled call leaves its batch before that begins; later only its result is
    dropped. In the function `svc.context()` is empty: it works for several calls.

    Raises TypeError for a generator, a class, and a function with `*args` or `**kwargs`; ValueError for numbers out of range.
    """
    if not (isinstance(max_size, int) and 1 <= max_size <= _SIZE_MAX):
        raise ValueError(f"batched: max_size is a whole number from 1 to {_SIZE_MAX}, not {max_size!r}")
    if not (isinstance(wait_ms, (int, float)) and 0 <= wait_ms <= _WAIT_MAX_MS):
        raise ValueError(f"batched: wait_ms is a number from 0 to {_WAIT_MAX_MS}, not {wait_ms!r}")
    return lambda function: _batched(function, max_size, wait_ms / 1000)


def _batched(function: Any, max_size: int, wait_s: float) -> Any:
    code = getattr(function, "__code__", None)
    if code is None:
        raise TypeError(f"@svc.batched marks a function or a method, below @Endpoint, not {function!r}")
    if code.co_flags & (_VARIADIC | _GENERATORS):
        what = "is a generator" if code.co_flags & _GENERATORS else "has *args or **kwargs"
        raise TypeError(f"@svc.batched: {function.__qualname__}() {what}; it needs plain parameters and one list as its result")
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    bound = int(names[:1] == ("self",))
    if len(names) == bound:
        raise TypeError(f"@svc.batched: {function.__qualname__}() has no parameter that could be a list of inputs")
    is_async = bool(code.co_flags & _COROUTINE)
    if not is_async:
        import queue  # here, so that forks find it

        del queue
    kind = _TaskBatches if is_async else _ThreadBatches
    of_instance = f"{_ATTRIBUTE}{function.__name__}"
    keywords = names[code.co_argcount :]
    alone = None if bound else kind(function, keywords, max_size, wait_s)

    def batches(instance: Any) -> Any:
        found = vars(instance).get(of_instance)
        if found is None:
            method = function.__get__(instance)
            found = vars(instance).setdefault(of_instance, kind(method, keywords, max_size, wait_s))
        return found

    wrapper = _with_signature(function, names, bound, is_async, batches if bound else alone)
    wrapper.__svc_batched__ = function
    return wrapper


_ATTRIBUTE = "__svc_batches_"


def _with_signature(function: Any, names: tuple[str, ...], bound: int, is_async: bool, target: Any) -> Any:
    """A function with the same parameters, each for one input, so that whoever looks at it sees what a call takes."""
    from types import FunctionType

    code = function.__code__
    parameters = [*names[: code.co_argcount]]
    if code.co_posonlyargcount:
        parameters.insert(code.co_posonlyargcount, "/")
    if code.co_kwonlyargcount:
        parameters += ["*", *names[code.co_argcount :]]
    submit = f"_target({names[0]}).call" if bound else "_target.call"
    source = (
        f"def make(_target):\n {'async ' if is_async else ''}def {function.__name__}({', '.join(parameters)}):\n"
        f"  return {'await ' if is_async else ''}{submit}(({', '.join(names[bound:])},))\n return {function.__name__}"
    )
    namespace: dict[str, Any] = {}
    exec(compile(source, __file__, "exec"), namespace)
    made = namespace["make"](target)
    wrapper = FunctionType(made.__code__, function.__globals__, function.__name__, function.__defaults__, made.__closure__)
    wrapper.__kwdefaults__ = function.__kwdefaults__
    annotations = {name: _of_one(annotation) for name, annotation in function.__annotations__.items()}
    wrapper.__annotations__ = {name: annotation for name, annotation in annotations.items() if annotation is not None}
    for name in ("__module__", "__qualname__", "__doc__"):
        setattr(wrapper, name, getattr(function, name))
    return wrapper


def _of_one(annotation: Any) -> Any:
    """`list[str]` → `str`; None where it does not say."""
    if isinstance(annotation, str):
        name, bracket, rest = annotation.strip().partition("[")
        if not bracket or not rest.endswith("]") or name.strip().rpartition(".")[2] not in _LISTS:
            return None
        try:
            compile(rest[:-1], "annotation", "eval")
        except SyntaxError:
            return None
        return rest[:-1]
    origin = getattr(annotation, "__origin__", None)
    arguments: Any = getattr(annotation, "__args__", ())
    return arguments[0] if len(arguments) == 1 and getattr(origin, "__name__", "") in _LISTS else None


class _Batches:
    """What both kinds share: the function, and how it is called with lists."""

    def __init__(self, function: Any, keywords: tuple[str, ...], max_size: int, wait_s: float) -> None:
        self._function = function
        self._keywords = keywords
        """Its last parameters, which are given by name only."""
        self._max_size = max_size
        self._wait_s = wait_s

    def _call(self, inputs: list[tuple[Any, ...]]) -> Any:
        lists = [list(column) for column in zip(*inputs)]
        positional = len(lists) - len(self._keywords)
        return self._function(*lists[:positional], **dict(zip(self._keywords, lists[positional:])))


def _each(function: Any, count: int, results: Any) -> list[Any]:
    """The results as a list. Raises TypeError for what is none, or of another length."""
    name = getattr(function, "__qualname__", "the function")
    is_list = hasattr(results, "__len__") and hasattr(results, "__iter__") and not isinstance(results, (str, bytes, dict))
    if not is_list:
        raise TypeError(f"{name}() is batched and returned {type(results).__name__}: it returns a list with one result for each input")
    if len(results) != count:
        raise TypeError(f"{name}() was given {count} inputs and returned {len(results)} results: it returns one for each, in their order")
    return list(results)


def _own(error: BaseException) -> BaseException:
    """An exception of one's own: several calls raise it at the same time, and each adds to its traceback."""
    import copy

    try:
        one = copy.copy(error)
        one.__cause__, one.__context__ = error.__cause__, error.__context__
        one.__suppress_context__ = error.__suppress_context__
        return one.with_traceback(error.__traceback__)
    except Exception:
        return error


class _Call:
    __slots__ = ("at", "done", "error", "gone", "result", "values")

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values
        self.at = monotonic()
        self.result: Any = None
        self.error: BaseException | None = None
        self.gone = False
        """Its caller was cancelled."""
        self.done = allocate_lock()
        self.done.acquire()


class _ThreadBatches(_Batches):
    """Of a sync function: its calls wait in their threads, a thread of its own runs it.

    A cancel is raised anywhere in a thread that calls, so such a thread holds no lock: one that was left locked would stop
    all calls.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._calls: dict[int, SimpleQueue[_Call]] = {}
        """By process: a fork has no threads but its own."""

    def _start(self) -> SimpleQueue[_Call]:
        """The thread of this process. Of several that are started at once, one stays.

        The new thread enters itself: until it runs CPython takes it for the one that starts it, so that a cancel of that
        one can end it at its first instruction. Then another is started.
        """
        while (found := self._calls.get(os.getpid())) is None:
            runs = allocate_lock()
            runs.acquire()
            start_new_thread(self._run, (runs,))
            runs.acquire(timeout=_LOOK_AGAIN_S)
        return found

    def call(self, values: tuple[Any, ...]) -> Any:
        calls = self._calls.get(os.getpid()) or self._start()
        call = _Call(values)
        try:
            calls.put(call)
            while not call.done.acquire(timeout=_LOOK_AGAIN_S):
                pass
        except BaseException:  # a cancel
            call.gone = True
            raise
        if call.error is not None:
            try:
                raise call.error
            finally:
                call.error = None  # or it and this frame would hold each other
        return call.result

    def _run(self, runs: Any) -> None:
        from queue import SimpleQueue

        calls: SimpleQueue[_Call] = SimpleQueue()
        first_one = self._calls.setdefault(os.getpid(), calls) is calls
        runs.release()
        while first_one:
            first = calls.get()
            batch = self._gather(first, calls)
            if batch:
                self._answer(batch)
            del first, batch  # or they would be kept until the next one

    def _gather(self, first: _Call, calls: SimpleQueue[_Call]) -> list[_Call]:
        from queue import Empty

        end = first.at + self._wait_s
        batch = [first]
        while len(batch) < self._max_size:
            try:
                batch.append(calls.get(timeout=max(0.0, end - monotonic())))
            except Empty:
                break
            if len(batch) == self._max_size:
                batch = [call for call in batch if not call.gone]
                if not batch:
                    break
        return [call for call in batch if not call.gone]

    def _answer(self, calls: list[_Call]) -> None:
        try:
            results = _each(self._function, len(calls), self._call([call.values for call in calls]))
            for call, result in zip(calls, results):
                if isinstance(result, BaseException):
                    call.error = result
                else:
                    call.result = result
        except BaseException as error:
            for call in calls:
                call.error = _own(error)
        for call in calls:
            call.done.release()


class _TaskBatches(_Batches):
    """Of an async function: its calls wait on the event loop, a task of its own runs it."""

    _loop: Any = None

    async def call(self, values: tuple[Any, ...]) -> Any:
        from asyncio import get_running_loop

        loop = get_running_loop()
        if self._loop is not loop:
            self._loop = loop
            self._waiting: list[tuple[float, tuple[Any, ...], Any]] = []
            self._runs = False
            self._timer: Any = None
        entry = (monotonic(), values, loop.create_future())
        self._waiting.append(entry)
        if not self._runs:
            self._begin_soon()
        try:
            return await entry[2]
        finally:
            if entry in self._waiting:  # it was cancelled
                self._waiting.remove(entry)

    def _begin_soon(self) -> None:
        """At once when a batch is full, else when its first call has waited."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._waiting:
            return
        wait_s = self._waiting[0][0] + self._wait_s - monotonic()
        if len(self._waiting) >= self._max_size or wait_s <= 0:
            self._begin()
        else:
            self._timer = self._loop.call_later(wait_s, self._begin)

    def _begin(self) -> None:
        import contextvars

        self._timer = None
        batch = self._waiting[: self._max_size]
        del self._waiting[: self._max_size]
        calls = [(values, future) for _, values, future in batch]
        if not calls:
            return
        self._runs = True
        # No call's own: nobody's job is cancelled, and what it prints is of no job.
        self._task = contextvars.Context().run(self._loop.create_task, self._answer(calls))

    async def _answer(self, calls: list[Any]) -> None:
        try:
            results = _each(self._function, len(calls), await self._call([values for values, _ in calls]))
            for (_, future), result in zip(calls, results):
                if future.done():
                    continue
                if isinstance(result, BaseException):
                    future.set_exception(result)
                else:
                    future.set_result(result)
        except BaseException as error:
            for _, future in calls:
                if not future.done():
                    future.set_exception(_own(error if isinstance(error, Exception) else RuntimeError(f"the batch was ended by {error!r}")))
        finally:
            self._runs = False
            self._begin_soon()
