"""What a zygote and its workers see of the machine: all of it read-only, and instead of what is not theirs

    /proc                      only their own processes
    /dev                       null, zero, full, random, urandom, tty, terminals of their own, shm; with a GPU its devices
    /home, /root, /run, $HOME  empty but for what they need: code, interpreter, runtime, the platform's socket; read-only
    hidden folders of START    likewise, and those on the way to what they need that other users do not pass
    /tmp, /var/tmp, $HOME      folders of the zygote's own beside the workers' temporary folders; they go with it
    /volumes/<name>, …         the endpoint's volumes, at the paths of its choice (volumes.py)
    /etc/passwd, /etc/group    the machine's, behind who works here where it does not know that number

Called as process 1 of new namespaces (namespaces.py), with the right to mount, before any code of the user.
"""

from __future__ import annotations

import errno
import os
import stat
import sys

from svc._runtime.confine import kernel, volumes
from svc._runtime.confine.kernel import checked

# All of svc: a worker imports from each of its rooms.
_PACKAGE = os.path.join(os.path.abspath(__file__).rpartition("/svc/")[0], "svc")

_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_BIND, _MS_REC = 1, 2, 4, 8, 4096, 16384
_ATTR_RDONLY, _AT_RECURSIVE = 1, 0x8000

_COVERED = ("/root", "/home", "/run")
TEMPORARY = ("/tmp", "/var/tmp")
USER = "svc"
# What is longer stays as it is.
_NAMES_MAX_BYTES = 16 << 10
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_GPU_DEVICES = ("nvidia", "dxg", "dri")
_DEV_LINKS = (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2"), ("ptmx", "pts/ptmx"))
# Of /run: what names are looked up with, and on NixOS programs and drivers.
_NEEDED = ("/etc/resolv.conf", "/run/current-system", "/run/opengl-driver")
# A home that is one of these (a service's, a container's) is no place of anybody's files.
_NO_HOMES = ("/", "/usr", "/etc", "/bin", "/sbin", "/lib", "/opt", "/var", "/dev", "/proc", "/sys", "/nonexistent")


def hidden_folders(start: dict) -> list[str]:
    """Real paths of what is covered, those above others first. None of them is looked into: it may lie on a disk of another
    machine, which does not answer."""
    home = os.path.realpath(os.environ.get("HOME") or "/")
    folders = [*_COVERED, *(start.get("hidden") or []), *([] if home in _NO_HOMES else [home])]
    return sorted({_real(os.path.abspath(folder)) for folder in folders} - {"/"}, key=_depth)


def _real(folder: str) -> str:
    try:
        os.readlink(folder)
    except OSError:
        above, name = os.path.split(folder)
        return os.path.join(os.path.realpath(above), name)
    return os.path.realpath(folder)


def needed_paths(start: dict) -> list[str]:
    """Real paths of what stays to be seen, read-only, in whatever folder it lies."""
    paths = [*(start.get("paths") or []), sys.prefix, sys.base_prefix, _PACKAGE, _environment_of(sys.executable), *_NEEDED]
    paths += [os.path.dirname(path) for path in (start.get("handler"), start.get("socket")) if path and path[0] == "/"]
    return sorted({path for path in map(os.path.realpath, paths) if path != "/" and os.path.exists(path)})


def writable_paths(start: dict) -> list[str]:
    """Real paths of the folders that keep what is written: the endpoint's own, and those that START lends."""
    own = start.get("tempDir")
    paths = [*(start.get("writable") or []), *([os.path.dirname(own)] if own else [])]
    return sorted({path for path in map(os.path.realpath, paths) if os.path.isdir(path)})


def build(start: dict, uid: int) -> str:
    """Sets the view up; `uid` is who will work in it. Returns the home folder in it. Raises OSError."""
    home, temporary = _own_folders(start, uid)
    devices = _open_devices(bool(start.get("gpu")))
    lent = volumes.copy_mounts(start)
    writable = [(path, True, _open(path)) for path in writable_paths(start)]
    needed = [(path, False, _open(path)) for path in needed_paths(start)]
    checked(kernel.change_mount("/", _AT_RECURSIVE, _ATTR_RDONLY, 0))
    checked(kernel.mount("proc", "/proc", "proc", _MS_RDONLY | _MS_NOSUID | _MS_NODEV | _MS_NOEXEC))
    closed = [] if uid == os.geteuid() else _closed_above(path for path, _, _ in needed)
    hidden = hidden_folders(start) + closed + _lend_temporary(temporary, [path for path, _, _ in writable + needed])
    covers = _cover(sorted(set(hidden), key=_depth), writable + needed)
    _make_dev(devices, start.get("memoryBytes") or 0)
    _name_user(uid, [start.get("gid", uid), *(start.get("groups") or [])], home)
    for path in (*covers, "/dev"):
        checked(kernel.change_mount(path, 0, _ATTR_RDONLY, 0))
    if lent:
        volumes.attach(lent, needed_paths(start))
    return home


def _closed_above(paths) -> list[str]:
    """Folders on the way to them that only their owner passes, such as one that was made together with the data directory in
    it. Whoever is another user sees nothing else in them anyway."""
    closed = set()
    for path in paths:
        end = path.find("/", 1)
        while end > 0 and os.stat(path[:end]).st_mode & stat.S_IXOTH:
            end = path.find("/", end + 1)
        if end > 0:
            closed.add(path[:end])
    return sorted(closed)


def _own_folders(start: dict, uid: int) -> tuple[str, int]:
    """A home and a folder for /tmp, made as the user who owns the folder around them: its processes may be at work in
    there, and root must not be led astray by a link. The home's path, and the other one open; ("/tmp", -1) without any."""
    own, name = start.get("tempDir"), start.get("shared")
    if not own or not name:
        return "/tmp", -1
    folder = os.path.realpath(os.path.dirname(own))
    around = _open(folder)
    us = os.geteuid()
    try:
        if uid != us:
            os.setegid(uid)
            os.seteuid(uid)
        os.mkdir(name, 0o700, dir_fd=around)
        made = os.open(name, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=around)
        for inner in ("home", "tmp"):
            os.mkdir(inner, 0o700, dir_fd=made)
        temporary = os.open("tmp", os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=made)
        os.close(made)
    finally:
        if uid != us:
            os.seteuid(us)
            os.setegid(us)
        os.close(around)
    return os.path.join(folder, name, "home"), temporary


def _lend_temporary(descriptor: int, shown: list[str]) -> list[str]:
    """/tmp and /var/tmp. What has to be seen below them lies in folders that are covered then: those are returned."""
    between = set()
    for path in TEMPORARY:
        if not os.path.isdir(path) or os.path.islink(path):
            continue
        if descriptor < 0:
            checked(kernel.mount("svc", path, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=1777"))
        else:
            _bind(descriptor, path, True)
        for inner in {one[len(path) + 1 :].split("/")[0] for one in shown if one.startswith(path + "/")}:
            os.makedirs(os.path.join(path, inner), exist_ok=True)
            between.add(os.path.join(path, inner))
    if descriptor >= 0:
        os.close(descriptor)
    return sorted(between)


def _cover(hidden: list[str], shown: list) -> list[str]:
    """Empty folders over the hidden ones, and in them again what is shown. Goes from the root down, so that each comes
    over what is above it. The paths of the covers."""
    covers: list[str] = []
    steps = [(_depth(path), 0, path, False, -1) for path in hidden]
    steps += [(_depth(path), 1, path, writable, descriptor) for path, writable, descriptor in shown]
    for _, _, path, writable, descriptor in sorted(steps):
        if descriptor < 0:
            if _cover_folder(path):
                covers.append(path)
            continue
        if writable or any(path.startswith(cover + "/") or path == cover for cover in covers):
            if os.path.isdir(f"/proc/self/fd/{descriptor}"):
                os.makedirs(path, exist_ok=True)
            else:
                _touch(path)
            _bind(descriptor, path, writable)
        os.close(descriptor)
    return covers


def _cover_folder(path: str) -> bool:
    """False: there is no such folder, or no way to it, for workers neither. Whether it is there, the mount says."""
    try:
        checked(kernel.mount("svc", path, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=0755,size=1m"))
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES):
            return False
        raise
    return True


def _make_dev(devices: list, shared_bytes: int) -> None:
    checked(kernel.mount("svc", "/dev", "tmpfs", _MS_NOSUID | _MS_NOEXEC, "mode=0755,size=64k"))
    for path, is_folder, descriptor in devices:
        if is_folder:
            os.mkdir(path)
        else:
            _touch(path)
        _bind(descriptor, path, True)
        os.close(descriptor)
    for name, target in _DEV_LINKS:
        os.symlink(target, f"/dev/{name}")
    for name in ("pts", "shm"):
        os.mkdir(f"/dev/{name}")
    checked(
        kernel.mount("devpts", "/dev/pts", "devpts", _MS_NOSUID | _MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620")
    )
    size = f",size={shared_bytes}" if shared_bytes else ""
    checked(kernel.mount("svc", "/dev/shm", "tmpfs", _MS_NOSUID | _MS_NODEV, f"mode=1777{size}"))


def _name_user(uid: int, groups: list[int], home: str) -> None:
    """What asks the system who it is (ssh, git, Java's user.name) fails where that has no name. The files are made in /dev,
    which can be written to yet, and stay mounted without their names there."""
    home = home if home.isprintable() and ":" not in home else "/"
    users = [(uid, f"{USER}:x:{uid}:{uid}::{home}:/bin/sh\n")]
    names = [(uid, USER), *((group, f"{USER}-{group}") for group in groups if group != uid)]
    for path, entries in (
        ("/etc/passwd", users),
        ("/etc/group", [(number, f"{name}:x:{number}:\n") for number, name in names]),
    ):
        try:
            with open(path, "rb") as file:
                known = file.read(_NAMES_MAX_BYTES + 1)
        except OSError:
            continue  # Nobody has a name here.
        numbers = {line.split(b":")[2] for line in known.splitlines() if line.count(b":") > 1}
        missing = "".join(entry for number, entry in entries if b"%d" % number not in numbers)
        if not missing or len(known) > _NAMES_MAX_BYTES:
            continue
        made = f"/dev/{os.path.basename(path)}"
        with open(made, "xb") as file:
            file.write(missing.encode() + known)
            os.fchmod(file.fileno(), 0o644)
        checked(kernel.mount(made, path, None, _MS_BIND))
        checked(kernel.change_mount(path, 0, _ATTR_RDONLY, 0))
        os.unlink(made)


def _open_devices(gpu: bool) -> list:
    names = [name for name in os.listdir("/dev") if name in _DEVICES or (gpu and name.startswith(_GPU_DEVICES))]
    return [(f"/dev/{name}", os.path.isdir(f"/dev/{name}"), _open(f"/dev/{name}")) for name in names]


def _environment_of(executable: str) -> str:
    """The folder to keep for an interpreter: that of its virtual environment, or the one that holds it."""
    folder = os.path.dirname(executable)
    above = os.path.dirname(folder)
    return above if os.path.exists(os.path.join(above, "pyvenv.cfg")) else folder


def _bind(descriptor: int, path: str, writable: bool) -> None:
    checked(kernel.mount(f"/proc/self/fd/{descriptor}", path, None, _MS_BIND | _MS_REC))
    if writable:
        checked(kernel.change_mount(path, 0, 0, _ATTR_RDONLY))


def _open(path: str) -> int:
    return os.open(path, os.O_PATH | os.O_CLOEXEC)


def _touch(path: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_CLOEXEC, 0o644))


def _depth(path: str) -> int:
    return path.count("/")
