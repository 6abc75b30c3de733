# SPDX-License-Identifier: Apache-2.0
"""Alert rules by promtool itself; and rules and dashboard name only metrics, and labels, that the appliance exports."""

import ast
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from simulators.appliance import Appliance

from appliance.api import metrics
from appliance.api.tests.test_metrics import scrape

MONITORING = Path(__file__).resolve().parents[3] / "packaging" / "monitoring"
_NAMES = ("alerts.yml", "alerts-test.yml", "forecast-test.yml", "dashboard.json")
RULES, TESTS, FORECAST, DASHBOARD = (MONITORING / f"zvaai-{name}" for name in _NAMES)
_SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}
_PREFIXES = {"what": ("lun", "host", "export", "nfs_host")}


def exported() -> set[str]:
    """Names of all samples, by the calls in appliance/api/metrics.py that make families."""
    exposed: set[str] = set()
    for node in ast.walk(ast.parse(Path(metrics.__file__).read_text())):
        if not (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SUFFIXES and node.args
        ):
            continue
        name = node.args[0]
        if isinstance(name, ast.Constant):
            names = [str(name.value)]
        elif isinstance(name, ast.JoinedStr):
            rest = "".join(str(part.value) for part in name.values if isinstance(part, ast.Constant))
            names = [f"{prefix}{rest}" for prefix in _PREFIXES["what"]]
        else:
            continue
        exposed |= {f"zvaai_{name}{suffix}" for name in names for suffix in _SUFFIXES[node.func.attr]}
    return exposed


def expressions() -> list[str]:
    """Expressions of rules and dashboard."""
    board: dict[str, Any] = json.loads(DASHBOARD.read_text())
    shown = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    variables = [variable["query"]["query"] for variable in board["templating"]["list"] if isinstance(variable["query"], dict)]
    rules = re.findall(r"^        expr: (?:>-)?(.*(?:\n          .*)*)", RULES.read_text(), re.MULTILINE)
    return [*shown, *variables, *(" ".join(rule.split()) for rule in rules)]


def test_promtool_accepts_the_rules() -> None:
    checked = subprocess.run(["promtool", "check", "rules", RULES], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    assert "rules found" in checked.stdout


def test_the_rules_alert_as_intended() -> None:
    tested = subprocess.run(["promtool", "test", "rules", TESTS, FORECAST], capture_output=True, text=True, check=False)
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_a_wrong_rule_fails(tmp_path: Path) -> None:
    """Or the two tests above prove nothing."""
    rules = RULES.read_text().replace("zvaai_target_up == 0", "zvaai_target_up == 2")
    (tmp_path / RULES.name).write_text(rules)
    (tmp_path / TESTS.name).write_text(TESTS.read_text())
    tested = subprocess.run(["promtool", "test", "rules", tmp_path / TESTS.name], capture_output=True, text=True, check=False)
    assert tested.returncode != 0 and "ZvaaiTargetDown" in tested.stdout + tested.stderr


def test_dashboard_and_rules_name_exported_metrics() -> None:
    named = {name for expression in expressions() for name in re.findall(r"\bzvaai_\w+", expression)}
    assert len(named) > 25 and named <= exported(), sorted(named - exported())


def test_the_dashboard_shows_why_vms_are_slow() -> None:
    board, hosts = DASHBOARD.read_text(), ("host_operations_total", "nfs_host_operations_total")
    pools = ("pool_scan_running", "pool_fragmentation_ratio")
    assert all(f"zvaai_{name}{{" in board for name in ("lun_aborted_total", *hosts, *pools))


def test_metrics_in_the_source_are_exported(appliance: Appliance) -> None:
    appliance.datastore("first")
    samples = {sample.name for family in scrape(appliance).values() for sample in family.samples}
    assert samples <= exported(), sorted(samples - exported())


@pytest.mark.parametrize("expression", expressions())
def test_promql_parses(expression: str, tmp_path: Path) -> None:
    """Variables of Grafana have example values."""
    if expression.startswith("label_values"):
        return
    filled = expression.replace("$instance", ".*").replace("$__rate_interval", "5m")
    rule = {"groups": [{"name": "one", "rules": [{"record": "one", "expr": filled}]}]}
    (tmp_path / "rules.json").write_text(json.dumps(rule))  # JSON is YAML
    checked = subprocess.run(["promtool", "check", "rules", tmp_path / "rules.json"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, f"{filled}: {checked.stderr}"
