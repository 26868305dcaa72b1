"""Requests of a load-balanced endpoint: runs the route, or hands the request to the ASGI application, and answers."""

from __future__ import annotations

from svc._runtime.http.frames import failed, last_frame, result_frame, stream_frames
from svc._runtime.http.reply import Parts
from svc._runtime.http.routes import RouteTable


class Requests:
    """What a worker knows of HTTP. An ASGI application runs in an event loop only, between `start` and `stop`."""

    def __init__(self, routes: RouteTable) -> None:
        self.routes = routes
        self.reads_as_it_comes = routes.reads_as_it_comes
        self.failed = failed
        self.has_application = routes.application is not None
        self._application = None

    async def start(self, worker) -> None:
        """Raises BootFailure when the application says that it cannot start."""
        from svc._runtime.http.asgi import Application

        app = self.routes.application
        if any(getattr(route, "path", None) == "/ping" for route in _routes_of(app)):
            print("svc: /ping is answered by the runtime, not by the application's route of that path", flush=True)
        self._application = Application(app, worker.who.endpoint, worker.endpoint_id)
        await self._application.lifespan.startup()

    async def stop(self) -> None:
        await self._application.lifespan.shutdown()

    def answer(self, worker, work) -> bytes:
        """Runs the route in this thread. Returns the frame that ends the work; those of a stream before it are out."""
        reply = self.routes.answer(work)
        values = reply.stream
        if values is None:
            return result_frame(work, reply)
        if not hasattr(values, "__iter__"):
            values = _driven(values)
        try:
            for value in values:
                for frame in stream_frames(work, reply, value):
                    worker.emit(frame, False, work)
                    if work.window <= 0:
                        worker.await_window(work)
        finally:
            close = getattr(values, "close", None)
            if close is not None:
                close()
        return last_frame(work, reply)

    async def answer_async(self, worker, work) -> bytes | None:
        """Runs the route on the event loop, a sync one in a thread. None: the application or socket has ended the work itself."""
        bound = self.routes.bind(work)
        if bound.is_application or bound.is_socket:
            work.tagged = False  # these speak for themselves
            if bound.is_application:
                await self._application.serve(work, worker)
            else:
                from svc._runtime.http.websocket_route import serve

                await serve(work, worker, bound.call)
            return None
        reply = bound.reply
        if reply is None:
            value = bound.call() if bound.is_async else await worker.in_thread(work, bound.call)
            if hasattr(value, "__await__"):
                value = await value
            reply = self.routes.reply_to(work, value)
        if reply.stream is None:
            return result_frame(work, reply)
        values = _async_values(worker, work, reply.stream)
        try:
            async for value in values:
                for frame in stream_frames(work, reply, value):
                    worker.write(frame)
                    work.started = True
                    if work.window <= 0:
                        await worker.window_opens(work)
        finally:
            await values.aclose()
        return last_frame(work, reply)


def _routes_of(app) -> tuple:
    """Those of a FastAPI or Starlette application; of another nobody knows."""
    routes = getattr(app, "routes", None)
    return tuple(routes) if isinstance(routes, (list, tuple)) else ()


async def _async_values(worker, work, stream):
    try:
        if isinstance(stream, Parts):
            for value in stream:
                yield value
        elif hasattr(stream, "__aiter__"):
            async for value in stream:
                yield value
        else:
            iterator = iter(stream)
            end = object()
            while (value := await worker.in_thread(work, next, iterator, end)) is not end:
                yield value
    finally:
        if hasattr(stream, "aclose"):
            await stream.aclose()
        elif hasattr(stream, "close"):
            stream.close()


def _driven(stream):
    """An async iterable in a worker without an event loop."""
    import asyncio

    loop = asyncio.new_event_loop()
    try:
        iterator = stream.__aiter__()
        while True:
            try:
                yield loop.run_until_complete(iterator.__anext__())
            except StopAsyncIteration:
                return
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
