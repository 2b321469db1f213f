"""Nobody who does not use Spark pays for it, and who lacks a part of it is told what to do."""

import subprocess
import sys
from pathlib import Path

import pytest

import quiver_spark
from quiver.model.errors import InvalidRequest
from quiver_spark.runtime.session import find_java


@pytest.mark.parametrize(
    "module", ["quiver", "quiver.cli.main", "quiver.app.serve", "quiver_spark", "quiver_spark.runtime.session"]
)
def test_importing_it_does_not_import_pyspark(module: str) -> None:
    check = f"import sys, {module}; print([name for name in sys.modules if name.partition('.')[0] == 'pyspark'])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InvalidRequest, match=r"there is none on the PATH: install Java 17 .*openjdk-17"):
        find_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(InvalidRequest, match="there is none in JAVA_HOME"):
        find_java()


def test_a_java_that_is_too_old(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(InvalidRequest, match=r"does not run on .*11\.0\.2"):
        find_java()


def test_finding_the_source_and_its_columns_imports_little() -> None:
    """Spark starts a process for each of both, one after the other, before the first row of a session."""
    check = (
        "import sys, pyspark_quiver; columns = pyspark_quiver.DefaultSource({'topic': 'orders'}).schema();"
        "print(columns.startswith('topic string'), {'numpy', 'pyarrow'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True set()"


def test_what_the_package_has_to_offer() -> None:
    assert all(callable(getattr(quiver_spark, name)) for name in quiver_spark.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        quiver_spark.nothing  # noqa: B018 - looking is the test
