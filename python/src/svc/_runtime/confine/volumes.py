"""Volumes at their paths, e.g. /volumes/models or /mnt/data. The machine's root has no such folder, and nothing may be made there:
the view gets a root of its own, in memory, with all folders of the machine as the view has them and those of the volumes."""

from __future__ import annotations

import os

from svc._runtime.confine import kernel
from svc._runtime.confine.kernel import checked

_STAGE = "/dev"
"""Any folder that every view has: the new root lies over it until it is the root."""

_MS_NOSUID, _MS_NODEV = 2, 4
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV = 1, 2, 4


def paths_of(start: dict) -> list[str]:
    """Where the endpoint's volumes are in its view, but for those that it may only read."""
    return [volume["to"] for volume in start.get("volumes") or [] if not volume.get("readOnly")]


def copy_mounts(start: dict) -> list[tuple[str, int, bool]]:
    """Path in the view, a copy of the mount, and whether it is read-only, of each volume. Raises OSError."""
    return [
        (volume["to"], checked(kernel.copy_mount(volume["from"])), bool(volume.get("readOnly")))
        for volume in start.get("volumes") or []
    ]


def attach(volumes: list[tuple[str, int, bool]], needed: list[str]) -> None:
    """The last step of a view. Raises OSError."""
    own = {path for path, _, _ in volumes}
    for path in needed:
        covered = next((one for one in own if path == one or path.startswith(one + "/")), None)
        if covered:
            raise OSError(0, f"the volume at {covered} would cover {path}, which its workers need: choose another path")
    shown: list[tuple[str, int]] = []
    links: list[tuple[str, str]] = []
    # All before the new root lies over one of them.
    _look("", own, {above for path in own for above in _above(path)}, shown, links)
    checked(kernel.mount("svc", _STAGE, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=0755,size=1m"))
    for path, copy in shown + [(path, copy) for path, copy, _ in volumes]:
        _put(copy, _STAGE + path)
    for path, target in links:
        os.makedirs(os.path.dirname(_STAGE + path), exist_ok=True)
        os.symlink(target, _STAGE + path)
    for path, _, read_only in volumes:
        added, removed = (_ATTR_RDONLY, 0) if read_only else (0, _ATTR_RDONLY)
        checked(kernel.change_mount(_STAGE + path, 0, _ATTR_NOSUID | _ATTR_NODEV | added, removed))
    checked(kernel.change_mount(_STAGE, 0, _ATTR_RDONLY, 0))
    os.chdir(_STAGE)
    checked(kernel.change_root())
    os.chdir("/")


def _look(folder: str, own: set[str], above: set[str], shown: list, links: list) -> None:
    """What the machine has in `folder` besides the volumes. A folder on the way to one is taken apart; a link there gives way."""
    for name in sorted(os.listdir(folder or "/")):
        path = f"{folder}/{name}"
        if path in own:
            continue
        if path in above:
            if os.path.isdir(path) and not os.path.islink(path):
                _look(path, own, above, shown, links)
        elif os.path.islink(path):
            links.append((path, os.readlink(path)))
        else:
            shown.append((path, checked(kernel.copy_mount(path))))


def _above(path: str) -> list[str]:
    parts = path.split("/")[1:-1]
    return ["/" + "/".join(parts[: index + 1]) for index in range(len(parts))]


def _put(copy: int, target: str) -> None:
    if os.path.isdir(f"/proc/self/fd/{copy}"):
        os.makedirs(target)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_CLOEXEC, 0o644))
    checked(kernel.put_mount(copy, target))
    os.close(copy)
