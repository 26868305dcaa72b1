"""Finds where an endpoint is: in a worker its own environment is asked for, elsewhere the app and environment of the
settings.

The platform is asked once in 300 s for a name; an answer ENDPOINT_NOT_FOUND of the endpoint itself drops what was kept.
"""

from __future__ import annotations

import json
import os
import threading
from time import monotonic

from svc import this_worker
from svc._calling import settings, versions
from svc._calling.ask import ask, problem_of
from svc._calling.connections import Patience
from svc._calling.limits import ANSWER_LATE_S, PEER_CACHE_S
from svc._calling.progress import in_notebook
from svc.errors import CallError, NotDeployed, PlatformError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Target:
    """A deployed endpoint as calls reach it."""

    __slots__ = ("found_at", "id", "is_queue", "key", "name", "platform", "url")

    def __init__(self, name: str, id: str, url: str, key: str, is_queue: bool, platform: str) -> None:
        self.name = name
        self.id = id
        self.url = url
        self.key = key
        self.is_queue = is_queue
        self.platform = platform
        """Base URL of the platform's own API."""
        self.found_at = monotonic()

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}


_LIVE_PREFIX = "live-"
"""Environments of `svc run`."""
_PEER = "query($name:String!){peer(name:$name){id kind url}}"
_APP = "query($name:String!){app(name:$name){environments{name endpoints{id name kind url}}}}"
_APPS = "{apps{name}}"
_QUEUES = "{myself{endpoints{id name kind url}}}"
_FUNCTIONS = "query($name:String!){endpoint(id:$name){functions routes}}"
_PEER_FUNCTIONS = "query($name:String!){peer(name:$name){functions routes}}"

_known: dict[tuple[str, ...], Target] = {}
_lock = threading.Lock()


def _forked() -> None:
    """A thread of the parent may have held it."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forked)


def find(name: str | None, patience: Patience, app: str | None = None, environment: str | None = None) -> Target:
    """Raises NotDeployed, PlatformError, CallError."""
    if not name:
        raise CallError("this endpoint has no name, so it cannot be found: give Endpoint(name=…)")
    if this_worker.LOADING:
        raise CallError(
            f"endpoint {name!r} is called while the file of endpoint {this_worker.LOADING!r} is being imported: "
            "every worker would repeat the call. Call it inside a function.",
            endpoint=name,
        )
    here = this_worker.WORKER
    if here is not None and app is None and environment is None:
        return _kept((here.url, here.app, here.environment, name)) or _peer(here, name, patience)
    key = (*settings.fingerprint(), app or "", environment or "", name)
    return _kept(key) or _keep(key, find_in(settings.platform(), name, app, environment, patience))


def find_in(
    platform: settings.Platform, name: str | None, app: str | None, environment: str | None, patience: Patience
) -> Target:
    """The endpoint of that name in an app and environment of this platform."""
    key = (platform.url, app or settings.app_name(), environment or settings.environment_name(), name or "")
    return _kept((platform.key, *key)) or _outside(platform, key, patience)


def forget(target: Target) -> None:
    """The endpoint is not there any more: the next call asks the platform again."""
    with _lock:
        for key in [key for key, known in _known.items() if known is target]:
            del _known[key]


def _kept(key: tuple[str, ...]) -> Target | None:
    target = _known.get(key)
    if target is not None and monotonic() - target.found_at < PEER_CACHE_S:
        return target
    return None


def _keep(key: tuple[str, ...], target: Target) -> Target:
    with _lock:
        _known[key] = target
    return target


def _peer(here: this_worker.ThisWorker, name: str, patience: Patience) -> Target:
    if not here.url:
        raise PlatformError(
            "this platform does not tell its workers where it is: it is older than their svc", endpoint=name
        )
    found = query(here.url, here.token, _PEER, {"name": name}, patience)["peer"]
    if found is None:
        where = f"environment {here.environment!r} of app {here.app!r}"
        why = f"is not deployed in {where}: run svc deploy"
        if here.environment.startswith(_LIVE_PREFIX):
            why = "is not live yet under svc run: call it once there, or start svc run --auto-provision"
        raise NotDeployed(f"endpoint {name!r} {why}", endpoint=name)
    is_queue = found["kind"] == "queue"
    # Not its public address, which this machine need not reach.
    url = f"{here.url}/{'v2' if is_queue else 'lb'}/{found['id']}"
    target = Target(name, found["id"], url, here.token, is_queue, here.url)
    return _keep((here.url, here.app, here.environment, name), target)


def _outside(platform: settings.Platform, key: tuple[str, str, str, str], patience: Patience) -> Target:
    _, app, environment, name = key
    found = query(platform.url, platform.key, _APP, {"name": app}, patience)["app"]
    environments = {one["name"]: one["endpoints"] for one in (found or {"environments": []})["environments"]}
    for one in environments.get(environment, ()):
        if one["name"] == name:
            is_queue = one["kind"] == "queue"
            target = Target(name, one["id"], one["url"].rstrip("/"), platform.key, is_queue, platform.url)
            return _keep((platform.key, *key), target)
    apps = _apps(platform, patience) if found is None else []
    raise NotDeployed(_why_not(key, found is not None, environments, apps), endpoint=name)


def _apps(platform: settings.Platform, patience: Patience) -> list[str]:
    """Those that the key may see."""
    try:
        found = query(platform.url, platform.key, _APPS, {}, patience).get("apps")
    except PlatformError:
        found = None
    return [one["name"] for one in found or ()]


def functions_of(target: Target, is_peer: bool, patience: Patience) -> dict[str, Any]:
    """`{"functions", "routes"}` of its build, as the manifest describes them."""
    here = this_worker.WORKER
    if is_peer and here is not None:
        found = query(here.url, here.token, _PEER_FUNCTIONS, {"name": target.name}, patience)["peer"]
    else:
        found = query(target.platform, target.key, _FUNCTIONS, {"name": target.id}, patience)["endpoint"]
    return found or {"functions": [], "routes": []}


def queues(platform: settings.Platform, patience: Patience) -> list[Target]:
    """Every queue-based endpoint that the key reaches."""
    all = query(platform.url, platform.key, _QUEUES, {}, patience)["myself"]["endpoints"]
    urls = [(one["name"], one["id"], one["url"].rstrip("/")) for one in all if one["kind"] == "queue"]
    return [Target(name, id, url, platform.key, True, platform.url) for name, id, url in urls]


def _near(name: str, there: list[str]) -> str:
    """"" where none comes near."""
    from difflib import get_close_matches

    near = get_close_matches(name, there, n=3, cutoff=0.7)
    return f" (did you mean {' or '.join(repr(each) for each in near)}?)" if near else ""


def _why_not(key: tuple[str, str, str, str], has_app: bool, environments: dict[str, Any], apps: list[str]) -> str:
    url, app, environment, name = key
    command = "svc deploy" if environment == settings.ENVIRONMENT_DEFAULT else f"svc deploy --env {environment}"
    if not has_app:
        why = f"there is no app {app!r} on {url}{_near(app, apps)}"
        other = " in the project's directory, or name the app: SVC_APP=… or svc.configure(app=…)"
    elif environment not in environments:
        why = f"app {app!r} has no environment {environment!r}"
        names = ", ".join(sorted(environments))
        other = f", or name another environment ({names}): SVC_ENV=… or svc.configure(environment=…)" if names else ""
    else:
        near = _near(name, [one["name"] for one in environments[environment]])
        why, other = f"environment {environment!r} of app {app!r} has no endpoint of that name{near}", ""
    if in_notebook():
        command = (
            "svc.deploy(the function) where a cell declares it; for a file, as of a cell that begins with "
            f"%%writefile worker.py, !{command}"
        )
    return f"endpoint {name!r} is not deployed: {why}. Run {command}{other}."


def query(url: str, key: str, document: str, variables: dict[str, Any], patience: Patience) -> dict[str, Any]:
    """The data of a GraphQL document's answer. Raises PlatformError."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    body = json.dumps({"query": document, "variables": variables}).encode()
    answer = ask(
        "POST", url, "/graphql", headers=headers, body=body, timeout_s=ANSWER_LATE_S, patience=patience, is_safe=True
    )
    versions.compare(url, answer.headers.get(versions.HEADER, ""))
    try:
        result: dict[str, Any] = json.loads(answer.body)
    except ValueError:
        result = {}
    errors = result.get("errors")
    if answer.status == 200 and not errors and isinstance(result.get("data"), dict):
        data: dict[str, Any] = result["data"]
        return data
    if errors:
        code = str((errors[0].get("extensions") or {}).get("code", ""))
        raise PlatformError(f"{url} refused: {errors[0].get('message')}", status=answer.status, code=code)
    message, code = problem_of(answer, f"{url} does not answer like a platform (HTTP {answer.status})")
    raise PlatformError(message, status=answer.status, code=code)
