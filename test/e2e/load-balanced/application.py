"""A FastAPI application of many kinds of answers. It runs on uvicorn and on an endpoint, and should not be able to tell."""

import os
import tempfile
from typing import Annotated

from fastapi import BackgroundTasks, Cookie, FastAPI, Form, HTTPException, Request, Response, UploadFile
from fastapi.middleware.cors import CORSMiddleware
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles
from starlette.middleware.base import BaseHTTPMiddleware

FILES = tempfile.mkdtemp()
os.mkdir(f"{FILES}/sub")
for name, text in (("digits.txt", b"0123456789" * 20_000), ("small.txt", b"small"), ("empty", b""), ("sub/index.html", b"<p>")):
    with open(f"{FILES}/{name}", "wb") as file:
        file.write(text)
    os.utime(f"{FILES}/{name}", (1_700_000_000, 1_700_000_000))


class Marked(BaseHTTPMiddleware):
    async def dispatch(self, request, call_next):
        response = await call_next(request)
        response.headers["x-marked"] = "yes"
        return response


app = FastAPI(docs_url=None, redoc_url=None)
app.add_middleware(GZipMiddleware, minimum_size=500)
app.add_middleware(CORSMiddleware, allow_origins=["https://page.example"], allow_methods=["*"], allow_credentials=True)
app.add_middleware(Marked)
app.mount("/static", StaticFiles(directory=FILES, html=True))
done = []


@app.get("/file")
def file():
    return FileResponse(f"{FILES}/digits.txt", filename="grüße.txt")


@app.post("/upload")
async def upload(a: UploadFile, n: Annotated[int, Form()]):
    size = 0
    while part := await a.read(65536):
        size += len(part)
    return {"size": size, "n": n, "name": a.filename, "type": a.content_type}


@app.post("/raw")
async def raw(request: Request):
    return [len(await request.body()), request.headers.get("content-type"), request.headers.get("content-length")]


@app.post("/parts")
async def parts(request: Request):
    size = 0
    async for part in request.stream():
        size += len(part)
    return size


@app.get("/stream")
def stream():
    return StreamingResponse((b"x" * 100_000 for _ in range(10)), media_type="application/x-parts")


@app.get("/events")
async def events():
    async def made():
        for n in range(5):
            yield f"data: {n}\n\n"

    return StreamingResponse(made(), media_type="text/event-stream")


@app.get("/broken")
def broken():
    def made():
        yield b"a"
        raise ValueError("in the middle")

    return StreamingResponse(made(), media_type="text/plain")


@app.get("/background")
def background(tasks: BackgroundTasks):
    tasks.add_task(done.append, 1)
    return "later"


@app.get("/teapot")
def teapot():
    raise HTTPException(418, {"a": 1}, headers={"x-tea": "green"})


@app.exception_handler(KeyError)
async def on_key_error(request, error):
    return JSONResponse({"key": str(error)}, 409)


@app.get("/key")
def key():
    raise KeyError("k")


@app.get("/elsewhere")
def elsewhere():
    return RedirectResponse("https://example.com/?x=1")


@app.get("/slash/")
def slash(request: Request):
    return request.url.query


@app.get("/cookies")
def cookies(response: Response, a: Annotated[str | None, Cookie()] = None):
    response.set_cookie("a", "1", httponly=True, max_age=5)
    response.set_cookie("b", "ü ;2")
    return a


@app.get("/headers")
def headers(request: Request):
    return [request.headers.get("accept"), request.headers.getlist("x-several"), request.client.host]


@app.get("/query")
def query(request: Request):
    return [request.query_params.multi_items(), request.url.query]


@app.get("/path/{rest:path}")
def path(rest: str, request: Request):
    return [rest, request.scope["raw_path"].decode().rpartition("/path/")[2]]


@app.api_route("/method", methods=["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "REPORT"])
def method(request: Request):
    return request.method


@app.get("/nothing", status_code=204)
def nothing():
    return None


@app.get("/unchanged")
def unchanged():
    return Response(status_code=304, headers={"etag": '"x"'})


@app.get("/no-body")
def no_body():
    return Response()


@app.get("/large")
def large():
    return {"x": "y" * 3_000_000}


@app.get("/page")
def page():
    return HTMLResponse("<p>ü" * 1000)


@app.get("/bytes")
def some_bytes():
    return Response(bytes(range(256)) * 300, media_type="application/octet-stream")


@app.get("/scope")
def scope(request: Request):
    keys = ("type", "http_version", "method", "scheme")
    return [[request.scope[key] for key in keys], request.scope["query_string"].decode()]
