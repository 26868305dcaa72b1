"""Says when the Python package and the platform are of two versions: they meet where the platform is asked for an endpoint."""

from __future__ import annotations

import warnings

from svc.version import VERSION

#: Names the platform's version in answers of its management API.
HEADER = "x-svc-version"

_told: set[str] = set()


def compare(url: str, version: str) -> None:
    """Warns once for a platform's version that is not this package's; `version` is empty of platforms that do not say."""
    if version in ("", VERSION) or version in _told:
        return
    _told.add(version)
    warnings.warn(
        f"this Python has svc {VERSION}, and the platform at {url} is svc {version}: calls may fail. "
        f"Install the package of svc {version}: svc init . --force brings it, pip install -r requirements.txt installs it",
        stacklevel=2,
    )
