/** The console in a real browser, against a real platform with deployed endpoints. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { type TestContext, test } from "node:test";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { openBrowser } from "../browser.ts";
import { project, startPlatform, type TestPlatform } from "../e2e/platform.ts";

const MARKUP = `<img src=x onerror="document.title='hit'">`;
const WORKERS = `import os
from svc import Endpoint, Response

PAGE = open(os.path.join(os.path.dirname(__file__), "attack.html")).read()
api = Endpoint(name="api", cpu="cpu3c-1-2", workers=(0, 2), max_concurrency=8, public=["GET /page", "GET /worker.js", "GET /seen"])


@api.get("/items/{item_id}")
def item(item_id: int):
    return {"item": item_id}


@api.get("/page")
def page():
    headers = {"Cross-Origin-Opener-Policy": "same-origin", "Service-Worker-Allowed": "/", "Set-Cookie": "svc_console_1=taken"}
    return Response(PAGE, media_type="text/html", headers=headers)


@api.get("/worker.js")
def worker():
    return Response("onfetch = () => {}", media_type="text/javascript", headers={"Service-Worker-Allowed": "/"})


@api.get("/seen")
def seen(cookie: str = svc.header("cookie", "")):
    return {"cookie": cookie}


@Endpoint(name="greet", cpu="cpu3c-1-2", workers=(0, 2))
def greet(name: str = "world"):
    """Greets."""
    print(f"greeting {name}")
    return {"message": f"hello {name}"}


@Endpoint(name="broken", cpu="cpu3c-1-2", workers=(0, 1))
def broken(text: str):
    print(text)
    if not os.path.exists(text):
        raise ValueError(text)
    return "mended"
`;
