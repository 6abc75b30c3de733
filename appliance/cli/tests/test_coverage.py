# SPDX-License-Identifier: Apache-2.0
"""Each operation of the API is used by the console and by the command, or is named here with the reason why not."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from appliance.api import resources as _resources  # noqa: F401  # declares all
from appliance.api.operation import DECLARATIONS

REPOSITORY = Path(__file__).resolve().parents[3]

PROGRAMS_ONLY = {
    "GET /metrics": "for Prometheus",
}
NOT_IN_CONSOLE = PROGRAMS_ONLY | {
    "POST /setup/administrator": "by root on the server",
    "POST /reconcile": "the worker reconciles by itself, after each change and once a minute",
}
NOT_IN_COMMAND = PROGRAMS_ONLY | {
    "GET /events": "`job wait` asks for its job",
    "GET /health/live": "for the console, where a page fails",
    "GET /health/ready": "for supervisors, and the console after a reboot",
    "GET /session": "a token has no session",
    "POST /session/password": "`user password` sets it",
    "GET /session/logins": "for the login page",
    "GET /session/oidc": "for browsers",
    "POST /session/oidc": "for browsers",
}


def place(path: str) -> str:
    """With a star for each part that varies."""
    return re.sub(r"<[^>]*>|\{[^{}]*\}", "*", path.removeprefix("/api/v1").partition("?")[0])


OPERATIONS = {f"{declaration.method} {place(declaration.path)}" for declaration in DECLARATIONS.values()}


def in_console() -> set[str]:
    """Calls of the typed client, and addresses that the browser follows by itself."""
    operations = set()
    for file in (REPOSITORY / "ui/src").rglob("*.ts*"):
        if ".test." not in file.name:
            text = file.read_text()
            operations |= {
                f"{method} {place(path)}" for method, path in re.findall(r'api\s*\.([A-Z]+)\(\s*"(/api/v1[^"]*)"', text)
            }
            operations |= {f"GET {place(path)}" for path in re.findall(r'["`](/api/v1/[^"`]*)["`]', text)}
    return operations


def in_command() -> set[str]:
    """Calls of the command's client, by the paths that its sources build."""
    return {call for file in (REPOSITORY / "appliance/cli").glob("*.py") for call in _calls(ast.parse(file.read_text()))}


METHODS = {
    "all": ("GET",),
    "named": ("GET",),
    "path": ("GET",),
    "download": ("GET",),
    "change": ("GET", "PATCH"),
    "delete": ("GET", "DELETE"),
}


def _calls(module: ast.Module) -> Iterator[str]:
    """Calls of one file. A name in a path is replaced by its value, or by the result of the function of this name."""
    functions = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)]
    returned = {
        function.name: line.value
        for function in functions
        for line in function.body
        if isinstance(line, ast.Return) and line.value
    }
    helpers = {name: value for name, value in returned.items() if isinstance(value, ast.JoinedStr)}
    for function in functions:
        known: dict[str, ast.expr] = {}
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                known[node.targets[0].id] = node.value
        for node in ast.walk(function):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
                continue
            name, arguments = node.func.attr, list(node.args)
            methods: Sequence[str] = METHODS.get(name, ())
            if name == "call" and isinstance(arguments[0], ast.Constant):
                methods = (str(arguments.pop(0).value),)  # type: ignore[attr-defined]
            for keyword in node.keywords:
                if keyword.arg == "method" and isinstance(keyword.value, ast.Constant):
                    methods = ("GET", str(keyword.value.value))
            for method in methods:
                yield f"{method} {place(_path(arguments[0], known, helpers))}"
    yield from _declared(module)


def _declared(module: ast.Module) -> Iterator[str]:
    """Calls of the tables and deletions of a file."""
    for node in module.body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
            if node.value.func.attr == "table":
                yield f"GET {place(_path(node.value.args[1], {}, {}))}"
            elif node.value.func.attr == "deletion":
                yield from (f"{method} {place(_path(node.value.args[0], {}, {}))}/*" for method in METHODS["delete"])


def _path(node: ast.expr, known: Mapping[str, ast.expr], helpers: Mapping[str, ast.expr]) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.FormattedValue) else part for part in node.values)
        return "".join(_path(part, known, helpers) for part in parts)
    if isinstance(node, ast.Name) and node.id in known and known[node.id] is not node:
        path = _path(known[node.id], {}, helpers)
        return path if path.startswith("/") else "*"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "path":
        return f"{_path(node.args[0], known, helpers)}/*"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in helpers:
        return _path(helpers[node.func.id], {}, helpers)
    return "*"


@pytest.mark.parametrize(
    ("used", "missing"), [(in_console, NOT_IN_CONSOLE), (in_command, NOT_IN_COMMAND)], ids=["console", "command"]
)
def test_each_operation_is_used_or_named(used: Callable[[], set[str]], missing: dict[str, str]) -> None:
    absent = OPERATIONS - used()
    assert sorted(absent - missing.keys()) == [], "neither used nor named"
    assert sorted(missing.keys() - absent) == [], "named, and used or gone"
