"""The home that a local session is started with: everything of the installed one but the zips of sources."""

import os
import sys
from pathlib import Path

import pyspark
import pytest

from quiver_spark.runtime.spark_home import installed_pyspark


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_it_has_everything_but_the_zips() -> None:
    for _ in range(2):
        with installed_pyspark():
            home = Path(os.environ["SPARK_HOME"])
        assert "SPARK_HOME" not in os.environ
        installed = {part.name for part in Path(pyspark.__path__[0]).iterdir()}
        assert {part.name for part in home.iterdir()} == installed - {"python"}
        assert (home / "jars").samefile(Path(pyspark.__path__[0]) / "jars")
    assert list(home.parent.iterdir()) == [home]


@pytest.mark.parametrize(("name", "chosen"), [("SPARK_HOME", "/opt/spark"), ("PYSPARK_PYTHON", "/opt/python")])
def test_what_the_user_has_chosen_stays(monkeypatch: pytest.MonkeyPatch, name: str, chosen: str) -> None:
    monkeypatch.setenv(name, chosen)
    before = dict(os.environ)
    with installed_pyspark():
        assert dict(os.environ) == before


def test_without_a_place_for_it_nothing_changes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(file))
    with installed_pyspark():
        assert "SPARK_HOME" not in os.environ
