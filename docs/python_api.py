"""Prints docs/reference/python-api.md: the public names of the package `svc`, from their source and docstrings."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from pathlib import Path

import svc

GROUPS = {
    "Declaring endpoints": [
        "Endpoint", "Retries", "Secret", "Volume", "Image", "GpuGroup", "GpuType", "batched", "enter", "exit", "option",
        "with_options",
    ],
    "In a function": ["context", "Context", "progress", "Cancelled", "Response", "WebSocket", "SocketClosed"],
    "Calling": [
        "RemoteFunction", "RemoteStream", "Job", "function", "DeployedFunction", "job", "job_aio", "EndpointClient",
        "remote", "configure", "deploy",
    ],
    "Errors": [
        "CallError", "RemoteError", "JobTimedOut", "JobCancelled", "JobNotFound", "NotDeployed", "CallCycle",
        "NotSendable", "PlatformError", "DeployFailed",
    ],
    "Names of projects of the same family": [
        "CpuInstanceType", "CudaVersion", "DataCenter", "NetworkVolume", "PodTemplate", "ServerlessScalerType",
    ],
}  # fmt: skip


NOT_MADE = {"Job", "RemoteStream", "RemoteFunction", "DeployedFunction", "Context", "WebSocket", "GpuGroup", "GpuType"}
"""Classes whose instances come from elsewhere: their constructors are nobody's business."""


def main() -> None:
    documented = [name for names in GROUPS.values() for name in names]
    left = sorted(set(svc.__all__) - set(documented) - {"__version__"})
    if left:
        sys.exit(f"docs/python_api.py names no group for {', '.join(left)}")
    out = ["# The Python API", "", INTRODUCTION]
    for group, names in GROUPS.items():
        out += ["", f"## {group}"]
        for name in names:
            out += ["", *described(name)]
    print("\n".join(out))


INTRODUCTION = """What `import svc` gives, made from the code's own signatures and docstrings. How they are used stands in the
[tutorials](../tutorials/first-function.md) and in [calling endpoints](calling.md)."""


def described(name: str) -> list[str]:
    value = getattr(svc, name)
    node = source_of(value, name)
    lines = [f"### svc.{name}", "", "```text", *signature(name, node), "```", "", *markdown(ast.get_docstring(node) or "")]
    if isinstance(node, ast.ClassDef):
        values = members(node)
        if values:
            lines += ["", "Values: " + ", ".join(f"`{each}`" for each in values) + "."]
        for method in public_methods(node):
            text = ast.get_docstring(method)
            if text:
                lines += ["", "```text", *signature(f".{method.name}", method), "```", "", *markdown(text)]
    return lines


def source_of(value: object, name: str) -> ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef:
    """Some names say that they belong to `svc` itself, so all of the package's files are looked through."""
    wanted = getattr(value, "__name__", name)
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for file in [inspect.getsourcefile(value), *sorted(map(str, Path(svc.__file__).parent.rglob("*.py")))]:
        nodes = ast.parse(Path(file).read_text(encoding="utf-8")).body
        for node in nodes:
            if isinstance(node, kinds) and node.name == wanted and ast.get_docstring(node):
                return node
    sys.exit(f"docs/python_api.py does not find the source of {name}")


def signature(shown: str, node: ast.AST) -> list[str]:
    """`name(arguments) -> result`, over several lines where one is too long."""
    function = node
    if isinstance(node, ast.ClassDef) and shown in NOT_MADE:
        return [f"class {shown}"]
    if isinstance(node, ast.ClassDef):
        made = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
        if not made:
            return [f"class {shown}"]
        function = next((each for each in made if not each.decorator_list), made[0])
    elif any(ast.unparse(each) == "property" for each in node.decorator_list):
        return [f"{shown}: {ast.unparse(node.returns)}"]
    arguments = [each for each in split(ast.unparse(function.args)) if each not in ("self", "cls")]
    result = ast.unparse(function.returns) if function.returns and not isinstance(node, ast.ClassDef) else ""
    arrow = f" -> {result}" if result else ""
    head = "await " if isinstance(node, ast.AsyncFunctionDef) else ""
    line = f"{head}{shown}({', '.join(arguments)}){arrow}"
    if len(line) <= 100:
        return [line]
    return [f"{head}{shown}(", *[f"    {each}," for each in arguments], f"){arrow}"]


def split(arguments: str) -> list[str]:
    """At commas that stand in no bracket and no text."""
    parts, depth, quoted, start = [], 0, "", 0
    for at, character in enumerate(arguments):
        if quoted:
            quoted = "" if character == quoted else quoted
        elif character in "'\"":
            quoted = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(arguments[start:at].strip())
            start = at + 1
    return [part for part in [*parts, arguments[start:].strip()] if part]


def public_methods(node: ast.ClassDef) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [each for each in node.body if isinstance(each, kinds) and not each.name.startswith("_")]


def members(node: ast.ClassDef) -> list[str]:
    """Of an enum."""
    assigned = [each.targets[0] for each in node.body if isinstance(each, ast.Assign)]
    return [each.id for each in assigned if isinstance(each, ast.Name) and each.id.isupper()]


def markdown(text: str) -> list[str]:
    """A docstring: indented blocks are code, indented `name: what` are a list, everything else is prose."""
    out: list[str] = []
    for block in re.split(r"\n\n+", text):
        lines = block.split("\n")
        if out:
            out.append("")
        if all(line.startswith("    ") for line in lines):
            shown = [line[4:] for line in lines]
            if out[-2:] == ["```", ""]:
                del out[-2:]
                shown.insert(0, "")
            else:
                out.append("```python")
            out += [*shown, "```"]
            continue
        for line in lines:
            item = re.match(r"    ([\w*]+(?:, \w+)*): (.*)", line)
            if item:
                if out and out[-1] and not out[-1].startswith(("- ", "  ")):
                    out.append("")
                out.append(f"- `{item[1]}`: {escaped(item[2])}")
            elif line.startswith("    ") and out and out[-1].startswith(("- ", "  ")):
                out.append(f"  {escaped(line.strip())}")
            else:
                out.append(escaped(line.strip()))
    return out


def escaped(line: str) -> str:
    """Outside code, what a browser would take for a tag."""
    return "".join(part if at % 2 else part.replace("<", "&lt;") for at, part in enumerate(re.split(r"(`[^`]*`)", line)))


main()
