"""The alert rules: valid, each with what to do and a test that it fires, over series that the broker has."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from blackbox.operate.prometheus_process import promtool
from unit.operate.series_names import check_expression

FOLDER = Path(__file__).parents[3] / "deploy" / "prometheus"


def rules() -> list[dict[str, Any]]:
    [group] = yaml.safe_load((FOLDER / "quiver-alerts.yml").read_text())["groups"]
    return list(group["rules"])


def test_promtool_accepts_configuration_and_rules() -> None:
    assert "SUCCESS" in promtool("check", "config", FOLDER / "prometheus.yml")
    assert f"{len(rules())} rules found" in promtool("check", "rules", FOLDER / "quiver-alerts.yml")


def test_the_unit_tests_of_the_rules_pass() -> None:
    assert "SUCCESS" in promtool("test", "rules", FOLDER / "quiver-alerts.test.yml")


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_a_rule_says_what_to_do_and_names_what_there_is(rule: dict[str, Any]) -> None:
    assert set(rule["annotations"]) == {"summary", "description", "action"}
    assert rule["labels"]["severity"] in ("critical", "warning")
    check_expression(rule["expr"])


def test_every_rule_has_a_test_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    tests = yaml.safe_load((FOLDER / "quiver-alerts.test.yml").read_text())["tests"]
    cases = [case for test in tests for case in test["alert_rule_test"]]
    firing = {case["alertname"] for case in cases if case["exp_alerts"]}
    silent = {case["alertname"] for case in cases if not case["exp_alerts"]}
    assert firing == {rule["alert"] for rule in rules()}
    assert firing - silent <= {"QuiverDiskFillsUp"}, "whose test has a second disk that stays as it is"
