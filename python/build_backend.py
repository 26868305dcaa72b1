"""Builds the wheel of the package `svc`: a PEP 517 backend without dependencies, so pip and uv need no network for it.

`python build_backend.py DIRECTORY` makes the same wheel with nothing but Python: svc carries it for `svc init`.
The same sources make the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import os
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "src"
#: What is imported. What is installed has the published name, as pyproject.toml has it.
PACKAGE = "svc"
TAG = "py3-none-any"
#: The oldest time a zip can hold: a wheel made twice is the same.
TIME = (1980, 1, 1, 0, 0, 0)
MODE = 0o100644 << 16


def distribution() -> str:
    project = (HERE / "pyproject.toml").read_text(encoding="utf-8")
    return next(line.split('"')[1] for line in project.splitlines() if line.startswith("name = "))


def stem() -> str:
    """With what the names of the wheel and of its metadata begin."""
    return f"{distribution().replace('-', '_')}-{version()}"


def version() -> str:
    values: dict[str, object] = {}
    exec((SOURCE / PACKAGE / "version.py").read_text(encoding="utf-8"), values)
    return str(values["VERSION"])


def metadata() -> str:
    return (
        "Metadata-Version: 2.1\n"
        f"Name: {distribution()}\n"
        f"Version: {version()}\n"
        "Summary: Turns a Python function into an autoscaled HTTP endpoint. SDK and worker runtime; no dependencies.\n"
        "License: Apache-2.0\n"
        "Requires-Python: >=3.10\n"
    )


def package_files() -> list[Path]:
    found = (SOURCE / PACKAGE).rglob("*")
    return sorted(path for path in found if path.suffix == ".py" or path.name == "py.typed")


def contents() -> dict[str, bytes]:
    """Every file of the wheel but RECORD, by its name there."""
    info = f"{stem()}.dist-info"
    files = {path.relative_to(SOURCE).as_posix(): path.read_bytes() for path in package_files()}
    files[f"{info}/METADATA"] = metadata().encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: svc\nRoot-Is-Purelib: true\nTag: {TAG}\n".encode()
    files[f"{info}/top_level.txt"] = f"{PACKAGE}\n".encode()
    license_text = HERE.parent / "LICENSE"
    if license_text.exists():
        files[f"{info}/LICENSE"] = license_text.read_bytes()
    return files


def record_line(name: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None) -> str:
    return write_wheel(Path(wheel_directory), contents())


def build_editable(wheel_directory, config_settings=None, metadata_directory=None) -> str:
    files = {name: data for name, data in contents().items() if ".dist-info/" in name}
    return write_wheel(Path(wheel_directory), {f"__{PACKAGE}__.pth": f"{SOURCE}\n".encode(), **files})


def write_wheel(directory: Path, files: dict[str, bytes]) -> str:
    name = f"{stem()}-{TAG}.whl"
    record = f"{stem()}.dist-info/RECORD"
    lines = "".join(record_line(path, data) for path, data in files.items()) + f"{record},,\n"
    directory.mkdir(parents=True, exist_ok=True)
    # Whoever looks meanwhile sees the whole wheel or none.
    part = directory / f".{name}.{os.getpid()}"
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in {**files, record: lines.encode()}.items():
            entry = zipfile.ZipInfo(path, TIME)
            entry.external_attr = MODE
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    part.replace(directory / name)
    return name


def build_sdist(sdist_directory, config_settings=None) -> str:
    raise NotImplementedError("svc is handed out as a wheel only: pip wheel, or uv build --wheel")


if __name__ == "__main__":
    print(write_wheel(Path(sys.argv[1]), contents()))
