"""Volumes at their paths, e.g. /volumes/models. The machine's root has no such folder, and nothing may be made there: the
view gets a root of its own, in memory, with all folders of the machine as the view has them and those of the volumes."""

from __future__ import annotations

import os

from svc._runtime.confine import kernel
from svc._runtime.confine.kernel import checked

_STAGE = "/dev"
"""Any folder that every view has: the new root lies over it until it is the root."""

_MS_NOSUID, _MS_NODEV = 2, 4
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV = 1, 2, 4


def paths_of(start: dict) -> list[str]:
    """Where the endpoint's volumes are in its view."""
    return [volume["to"] for volume in start.get("volumes") or []]


def copy_mounts(start: dict) -> list[tuple[str, int]]:
    """Path in the view and a copy of the mount, of each volume. Raises OSError."""
    return [(volume["to"], checked(kernel.copy_mount(volume["from"]))) for volume in start.get("volumes") or []]


def attach(volumes: list[tuple[str, int]]) -> None:
    """The last step of a view. Raises OSError."""
    own = {path.split("/")[1] for path, _ in volumes}
    names = [name for name in sorted(os.listdir("/")) if name not in own]
    links = {name: os.readlink(f"/{name}") for name in names if os.path.islink(f"/{name}")}
    # All before the new root lies over one of them.
    shown = [(f"/{name}", checked(kernel.copy_mount(f"/{name}"))) for name in names if name not in links]
    checked(kernel.mount("svc", _STAGE, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=0755,size=1m"))
    for name, target in links.items():
        os.symlink(target, f"{_STAGE}/{name}")
    for path, copy in shown + volumes:
        _put(copy, _STAGE + path)
    for path, _ in volumes:
        checked(kernel.change_mount(_STAGE + path, 0, _ATTR_NOSUID | _ATTR_NODEV, _ATTR_RDONLY))
    checked(kernel.change_mount(_STAGE, 0, _ATTR_RDONLY, 0))
    os.chdir(_STAGE)
    checked(kernel.change_root())
    os.chdir("/")


def _put(copy: int, target: str) -> None:
    if os.path.isdir(f"/proc/self/fd/{copy}"):
        os.makedirs(target)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_CLOEXEC, 0o644))
    checked(kernel.put_mount(copy, target))
    os.close(copy)
