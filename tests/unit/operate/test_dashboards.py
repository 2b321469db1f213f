"""The Grafana dashboards: written by the script, every expression parses and names what the broker has."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from blackbox.operate.prometheus_process import promtool
from unit.operate.series_names import check_expression, known_series, named_series

ROOT = Path(__file__).parents[3]
DASHBOARDS = sorted((ROOT / "deploy" / "grafana").glob("*.json"))


def expressions(path: Path) -> list[str]:
    document = json.loads(path.read_text())
    found = [target["expr"] for panel in document["panels"] for target in panel.get("targets", ())]
    variables = [each["query"]["query"] for each in document["templating"]["list"] if each["type"] == "query"]
    return found + [re.sub(r"^label_values\((.*), \w+\)$", r"\1", each) for each in variables]


def test_the_files_are_what_the_script_writes() -> None:
    script = ROOT / "scripts" / "dashboards.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names = {path.stem.removeprefix("quiver-") for path in DASHBOARDS}
    assert names == {"overview", "topic", "queue", "group", "node", "pipeline"}


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_expressions_name_series_and_labels_that_there_are(path: Path) -> None:
    for expression in expressions(path):
        check_expression(expression)


def test_every_series_is_on_a_dashboard() -> None:
    shown = {name for path in DASHBOARDS for expression in expressions(path) for name in named_series(expression)}
    shown = {re.sub(r"_(bucket|sum|count)$", "", name) for name in shown}
    known = {re.sub(r"_(bucket|sum|count)$", "", name) for name in known_series()}
    assert known - shown <= {"process_virtual_memory_bytes", "process_start_time_seconds"}


def test_every_expression_parses(tmp_path: Path) -> None:
    """promtool parses expressions as part of a file of rules."""
    rules = [
        {"record": f"check:{number}".replace(":", "_"), "expr": expression.replace("$__rate_interval", "1m")}
        for number, expression in enumerate(each for path in DASHBOARDS for each in expressions(path))
    ]
    path = tmp_path / "rules.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboards", "rules": rules}]}))
    assert f"{len(rules)} rules found" in promtool("check", "rules", path)


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_panels_have_places_of_their_own(path: Path) -> None:
    panels = json.loads(path.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert all(x < 24 for x, _ in cells)
        taken |= cells
