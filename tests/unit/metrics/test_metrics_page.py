"""docs/metrics.md has every series, and every series says what it needs to."""

import re
from pathlib import Path

import pytest
from scripts.metrics_page import PAGE, page

from quiver.metrics.series import ALL
from quiver.telemetry.exposition import Series


def test_the_page_has_the_series_of_the_broker() -> None:
    assert page(PAGE.read_text()) == PAGE.read_text(), "run make format"


def test_names_are_there_once() -> None:
    names = [series.name for series in ALL]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("series", ALL, ids=lambda series: series.name)
def test_names_follow_the_rules_of_prometheus(series: Series) -> None:
    assert re.fullmatch(r"(quiver|process)_[a-z_]+", series.name)
    assert series.name.endswith("_total") == (series.kind == "counter")
    assert series.name.endswith("_info") == (series.kind == "info")
    assert series.meaning
    assert not series.meaning.endswith(".")
    assert "partition" not in series.labels


def test_no_part_of_the_broker_imports_the_series_but_their_sources() -> None:
    root = Path(PAGE.parents[1] / "src" / "quiver")
    users = {
        str(path.relative_to(root).parent)
        for path in root.rglob("*.py")
        if "quiver.metrics.series" in path.read_text()
    }
    assert users <= {"metrics", "metrics/sources"}
