"""`svc.deploy`: writes the declaring cells to a project of their own and runs `svc deploy` there.

The endpoints go to the app and environment that the notebook's calls go to; others that are there stay.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections import deque

from svc import this_worker
from svc._calling import settings
from svc._calling.connections import Patience
from svc._calling.discovery import find
from svc._calling.limits import DEPLOY_SAID_MAX_LINES
from svc._notebook.cells import History
from svc._notebook.source import FILE, Source, source_of
from svc.endpoint import Endpoint
from svc.errors import DeployFailed, NotDeployed
from svc.options import ENDPOINT
from svc.remote_function import RemoteFunction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def deploy(declared: tuple[Any, ...]) -> None:
    """Raises TypeError, DeployFailed, PlatformError."""
    if this_worker.WORKER is not None or this_worker.LOADING:
        raise DeployFailed("svc.deploy is called in a worker: it is for notebooks")
    endpoints = _endpoints(declared)
    history = History()
    functions = [each for endpoint in endpoints for each in (*endpoint.functions, *endpoint.routes.values())]
    cells = list(dict.fromkeys(history.cell_of(each) for each in functions))
    source = source_of(cells, history, vars(sys.modules["__main__"]))
    command = _command()
    platform = settings.platform()
    place = ["--app", settings.app_name(), "--env", settings.environment_name()]
    # Both were found as calls find them, also in this folder's .env, which is not the project's.
    found = {"PLATFORM_URL": platform.url, "PLATFORM_API_KEY": platform.key}
    env = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"} | {"NO_COLOR": "1"} | found
    folder = _written(str(endpoints[0].name), source)
    _run([*command, "deploy", "--keep-removed", *place], folder, env, source)
    for endpoint in endpoints:
        _check(endpoint, [cell.label for cell in cells])


def _endpoints(declared: tuple[Any, ...]) -> list[Endpoint]:
    """Of functions, classes and endpoints, each once. Raises TypeError for everything else."""
    if not declared:
        raise TypeError("svc.deploy() takes what a cell declares: svc.deploy(double)")
    found: dict[Endpoint, None] = {}
    for each in declared:
        endpoint = each.endpoint if isinstance(each, RemoteFunction) else each
        if isinstance(each, type):
            endpoint = vars(each).get(ENDPOINT)
        if not isinstance(endpoint, Endpoint) or not endpoint.name:
            raise TypeError(f"svc.deploy() takes functions and classes that an Endpoint declares, and it, not {each!r}")
        if not endpoint.functions and not endpoint.routes:
            raise DeployFailed(
                f"endpoint {endpoint.name!r} has no function, which would tell its cell: begin the cell with "
                f"%%writefile {FILE} and run !svc deploy"
            )
        found[endpoint] = None
    return list(found)


def _command() -> list[str]:
    given = shlex.split(os.environ.get("SVC_COMMAND", ""))
    program = shutil.which(given[0] if given else "svc")
    if program is None:
        what = f"SVC_COMMAND names {given[0]!r}, which" if given else "the svc command, which builds and deploys,"
        raise DeployFailed(
            f"{what} is not found on the PATH of this notebook's kernel: install it there, or say where it is with "
            "%env SVC_COMMAND=/path/to/svc"
        )
    return [os.path.abspath(program), *given[1:]]


def _written(name: str, source: Source) -> str:
    """The project's folder, below the current one or, where nothing can be written there, in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    places = (os.path.abspath(".svc"), os.path.join(cache, "svc", settings.app_name()))
    for place in places:
        folder = os.path.join(place, "notebook", name)
        try:
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, FILE), "w", encoding="utf-8") as file:
                file.write(source.text)
            return folder
        except OSError as error:
            failed = error
    raise DeployFailed(f"the cells cannot be written to {' or '.join(places)}: {failed}")


def _run(command: list[str], folder: str, env: dict[str, str], source: Source) -> None:
    """Shows what the command says, and raises what it ends with."""
    # A session of its own: an interrupt of the kernel reaches it once, from here.
    process = subprocess.Popen(
        command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        encoding="utf-8", errors="replace", start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    said: deque[str] = deque(maxlen=DEPLOY_SAID_MAX_LINES)
    failed = False
    try:
        for line in process.stdout:
            failed = failed or line.startswith("error")
            line = source.in_cells(line)
            said.append(line)
            if not failed:
                sys.stdout.write(line)
                sys.stdout.flush()
        code = process.wait()
    except BaseException:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.wait()
        raise
    finally:
        process.stdout.close()
    if code != 0:
        problem = "".join(said) if failed else ""
        raise DeployFailed(problem.removeprefix("error: ").rstrip() or f"svc deploy ended with exit code {code}")


def _check(endpoint: Endpoint, labels: list[str]) -> None:
    try:
        find(endpoint.name, Patience())
    except NotDeployed:
        raise DeployFailed(
            f"endpoint {endpoint.name!r} is not declared by the code of {', '.join(labels)}: declare it in the cell of "
            "its function or class"
        ) from None
