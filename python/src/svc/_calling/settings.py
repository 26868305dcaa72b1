"""Which platform, app and environment a script's calls go to; the order is that of the `svc` command.

configure(…) → environment variable → .env of the current directory → stored login → the embedded platform that runs
"""

from __future__ import annotations

import json
import os
import re
import sys

from svc.errors import PlatformError
from svc.names import suggested_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ENVIRONMENT_DEFAULT = "production"

_given: dict[str, str] = {}


def configure(settings: dict[str, str | None]) -> None:
    """What is given here comes before everything else; None takes it back."""
    for name, value in settings.items():
        if value is None:
            _given.pop(name, None)
        else:
            _given[name] = value.rstrip("/") if name == "url" else value


def fingerprint() -> tuple[str, ...]:
    """What decides where calls go, files aside: while it stays, a found endpoint stays found."""
    names = ("SVC_APP", "SVC_ENV", "PLATFORM_URL", "PLATFORM_API_KEY", "SVC_CONFIG_DIR", "SVC_DATA_DIR")
    return (os.getcwd(), *(os.environ.get(name, "") for name in names), repr(_given))


class Platform:
    """A platform's address and the key for it."""

    __slots__ = ("key", "url")

    def __init__(self, url: str, key: str) -> None:
        self.url = url
        self.key = key


def app_name() -> str:
    """The app of the calls: given, or the current directory's as `svc deploy` detects it."""
    return _setting("app", "SVC_APP") or suggested_name(os.path.basename(os.getcwd()))


def environment_name() -> str:
    return _setting("environment", "SVC_ENV") or ENVIRONMENT_DEFAULT


def platform(url: str | None = None, key: str | None = None) -> Platform:
    """Raises PlatformError when no platform or no key is known."""
    stored = _stored_keys()
    file_names_it = not (url or _given.get("url") or os.environ.get("PLATFORM_URL", "").strip())
    url = url or _setting("url", "PLATFORM_URL")
    file_names_it = file_names_it and bool(url)
    directory = ""
    if not url:
        login = stored.get("login") or {}
        url = login.get("url", "")
    if not url:
        directory = _data_directory()
        url = _running_platform(directory)
    if not url:
        raise PlatformError(
            "no platform is set, and none runs on this machine: run svc platform start, or set PLATFORM_URL"
        )
    url = url.rstrip("/")
    if not url.startswith(("http://", "https://")):
        raise PlatformError(f"{url!r} is not the address of a platform: give it as http://HOST:PORT or https://HOST")
    exported = os.environ.get("PLATFORM_API_KEY", "").strip()
    if not key and file_names_it:
        # A project from elsewhere must not collect the keys of the shells that it runs in.
        key = _given.get("api_key") or _dotenv().get("PLATFORM_API_KEY", "").strip()
        key = key or _stored_key(stored, url, directory)
        if not key and exported:
            raise PlatformError(
                f"the key of the environment is not sent to {url}: that address comes from .env in this directory; "
                "if you trust it, set PLATFORM_URL in the environment too, or put PLATFORM_API_KEY into .env as well",
                code="MISSING_KEY",
            )
    key = key or _setting("api_key", "PLATFORM_API_KEY") or _stored_key(stored, url, directory)
    if not key:
        raise PlatformError(f"no API key for {url}: set PLATFORM_API_KEY or run svc login", code="MISSING_KEY")
    return Platform(url, key)


def platform_of_worker(own_url: str, url: str | None, key: str | None) -> Platform:
    """For a worker's calls beyond its own environment, which its token does not reach. Raises PlatformError."""
    key = key or _given.get("api_key") or os.environ.get("PLATFORM_API_KEY", "").strip()
    if not key:
        raise PlatformError(
            "a worker's own token reaches its own environment only: for another one give its endpoint a key, as in "
            'env={"PLATFORM_API_KEY": Secret("…")}',
            code="MISSING_KEY",
        )
    return Platform((url or _given.get("url") or os.environ.get("PLATFORM_URL", "").strip() or own_url).rstrip("/"), key)


def _setting(name: str, variable: str) -> str:
    if _given.get(name):
        return _given[name]
    exported = os.environ.get(variable, "").strip()
    return exported or _dotenv().get(variable, "").strip()


_LINE = re.compile(
    r"""^\s*(?:export\s+)?([\w.-]+)(?:\s*=\s*?|:\s+?)(\s*'(?:\\'|[^'])*'|\s*"(?:\\"|[^"])*"|\s*`(?:\\`|[^`])*`|[^#\r\n]+)?\s*(?:#.*)?$""",
    re.MULTILINE,
)


def _dotenv() -> dict[str, str]:
    """Variables of ./.env, read as the command-line tool reads them."""
    try:
        with open(".env", encoding="utf-8") as file:
            text = file.read().replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError):
        return {}
    found = {}
    for match in _LINE.finditer(text):
        value = (match.group(2) or "").strip()
        quote = value[:1]
        if quote in ("'", '"', "`") and value[-1:] == quote and len(value) > 1:
            value = value[1:-1]
            if quote == '"':
                value = value.replace("\\n", "\n").replace("\\r", "\r")
        found[match.group(1)] = value
    return found


def _stored_keys() -> dict[str, Any]:
    try:
        with open(os.path.join(_config_directory(), "credentials.json"), encoding="utf-8") as file:
            stored: dict[str, Any] = json.load(file)
            return stored
    except (OSError, ValueError):
        return {}


def _stored_key(stored: dict[str, Any], url: str, directory: str) -> str:
    embedded: dict[str, dict[str, str]] = stored.get("embedded") or {}
    if directory and directory in embedded:
        return embedded[directory].get("apiKey", "")
    login: dict[str, str] = stored.get("login") or {}
    for entry in (login, *embedded.values()):
        if entry.get("url") == url:
            return entry.get("apiKey", "")
    return ""


def _running_platform(directory: str) -> str:
    """Address of the embedded platform of a data directory; "" when none runs."""
    try:
        with open(os.path.join(directory, "platform.json"), encoding="utf-8") as file:
            record: dict[str, Any] = json.load(file)
        url, pid = str(record["url"]), int(record["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    try:
        os.kill(pid, 0)
    except PermissionError:
        pass  # another user's, and alive
    except OSError:
        return ""
    return url


def _config_directory() -> str:
    given = os.environ.get("SVC_CONFIG_DIR")
    if given:
        return os.path.abspath(given)
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Preferences/svc")
    if sys.platform == "win32":
        return os.path.join(os.environ.get("APPDATA", os.path.expanduser(r"~\AppData\Roaming")), "svc", "Config")
    return os.path.join(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"), "svc")


def _data_directory() -> str:
    given = os.environ.get("SVC_DATA_DIR")
    if given:
        return os.path.abspath(given)
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Application Support/svc")
    if sys.platform == "win32":
        return os.path.join(os.environ.get("LOCALAPPDATA", os.path.expanduser(r"~\AppData\Local")), "svc", "Data")
    return os.path.join(os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share"), "svc")
