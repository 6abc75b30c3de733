# SPDX-License-Identifier: Apache-2.0
"""Permitted imports between packages, as in appliance/README.md."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import appliance

ROOT = Path(appliance.__file__).parent
COMMON = {"", "config", "decoding", "logs", "tls", "updates"}
ENTRY = ROOT / "worker/__main__.py"
"""The process: it puts worker and API together."""
MAY = {
    "database": set(),
    "domain": {"database", "zfs.model", "zfs.names", "zfs.errors", "zfs.properties"},
    "zfs": set(),
    "dataplane": set(),
    "helper": {"zfs", "dataplane.ganesha", "dataplane.ganesha_dbus"},
    "notify": {"domain", "database"},
    "login": {"domain"},
    "api": {"domain", "database", "notify", "login", "worker", "dataplane.target", "zfs.model"},
    "worker": {"domain", "database", "dataplane", "zfs", "helper.client", "notify"},
    "gateway": {"api", "domain.errors"},
    "cli": set(),
}


def imported(file: Path) -> Iterator[str]:
    """Modules of the appliance, without its name."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names] if node.module == "appliance" else [node.module]
        else:
            continue
        for name in names:
            if name == "appliance" or name.startswith("appliance."):
                yield name.removeprefix("appliance").removeprefix(".")


def test_imports_run_one_way() -> None:
    rooms = {path.name for path in ROOT.iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    assert rooms - {"tests"} == set(MAY)
    wrong = []
    for room, may in MAY.items():
        for file in (ROOT / room).rglob("*.py"):
            if "tests" in file.parts:
                continue
            for name in imported(file):
                first = name.split(".")[0]
                if first == room or first in COMMON or name == "__version__":
                    continue
                if file == ENTRY and first == "api":
                    continue
                if not any(name == allowed or name.startswith(f"{allowed}.") for allowed in may):
                    wrong.append(f"{file.relative_to(ROOT)}: {name}")
    assert wrong == []


def test_no_module_imports_itself_in_a_circle() -> None:
    """Imports for types only count, too: what needs a circle to be typed can't be read alone."""
    files = {f"{file.relative_to(ROOT).with_suffix('')}".replace("/", "."): file for file in ROOT.rglob("*.py")}
    files = {name.removesuffix(".__init__"): file for name, file in files.items() if "tests" not in file.parts}
    graph = {name: _modules(file, files) - {name} for name, file in files.items()}
    while free := {name for name, needs in graph.items() if not needs & graph.keys()}:
        graph = {name: needs for name, needs in graph.items() if name not in free}
    needed = set().union(*graph.values()) if graph else set()
    assert sorted(needed & graph.keys()) == []


def _modules(file: Path, files: Mapping[str, Path]) -> set[str]:
    """Modules that a file imports: of `from package import module` the module."""
    packages: set[str] = set()
    for name in imported(file):
        packages |= {name} & files.keys()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("appliance."):
            package = node.module.removeprefix("appliance.")
            if modules := {f"{package}.{alias.name}" for alias in node.names} & files.keys():
                packages = packages - {package} | modules
    return packages


def test_the_http_process_opens_no_database_and_no_key() -> None:
    """It imports declarations, whose modules name tables. Nothing of the process itself names what opens them."""
    for file in (ROOT / "gateway").rglob("*.py"):
        assert not re.search(r"\b(Store|Seal|Context|HelperClient)\b", file.read_text()), file
