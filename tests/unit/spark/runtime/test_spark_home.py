"""The home that a local session is started with: everything of the installed one but the zips of sources."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from quiver_spark.runtime.spark_home import installed_pyspark

NOISE = "WARNING: Using incubator modules: jdk.incubator.vector\n"


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
        assert {part.name for part in (home / "bin").iterdir()} == {part.name for part in installed_bin().iterdir()}
    assert list(home.parent.iterdir()) == [home]


def installed_bin() -> Path:
    return Path(pyspark.__path__[0]) / "bin"


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        (f"{NOISE}first\nsecond", "first\nsecond"),
        (f"first\n{NOISE}", f"first\n{NOISE}"),
        ("half a line", "half a line"),
        (NOISE, ""),
    ],
)
def test_its_program_says_all_but_the_line_that_java_begins_with(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str, heard: str
) -> None:
    installed = tmp_path / "a place" / "pyspark"
    (installed / "bin").mkdir(parents=True)
    submit = installed / "bin" / "spark-submit"
    submit.write_text('#!/bin/sh\nprintf "%s" "$1" >&2\necho "$2"\nexit 7\n')
    submit.chmod(0o755)
    monkeypatch.setattr(pyspark, "__path__", [str(installed)])
    monkeypatch.setattr("pyspark.find_spark_home._find_spark_home", lambda: str(installed))
    with installed_pyspark() as home:
        assert home is not None
    words = [str(home / "bin" / "spark-submit"), said, "a b"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (done.stderr, done.stdout, done.returncode) == (heard, "a b\n", 7)


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
