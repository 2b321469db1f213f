"""What is decided about clusters without one: how masters are reached, the shipped code, what went wrong."""

import os
import socket
import subprocess
import sys
import zipimport
from pathlib import Path
from zipfile import ZipFile

import pytest

from quiver.cli.main import run
from quiver.model.errors import ConnectionLost, InvalidRequest
from quiver_spark.lake.files import LakeFile
from quiver_spark.lake.opening import open_lake
from quiver_spark.lake.table import Advance
from quiver_spark.runtime.cluster import address_towards, is_local
from quiver_spark.runtime.failures import error_in
from quiver_spark.runtime.shipping import write_package
from quiver_spark.source.options import read_options
from quiver_spark.source.tasks import cores


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_package(tmp_path_factory.mktemp("shipped") / "code.zip").path


@pytest.mark.parametrize(
    ("master", "expected"),
    [("local", True), ("local[*]", True), ("local[2,4]", True), ("local-cluster[2,1,1024]", False), ("yarn", False)],
)
def test_which_masters_are_this_machine(master: str, expected: bool) -> None:
    assert is_local(master) is expected


def test_the_address_that_a_master_sees() -> None:
    with socket.create_server(("127.0.0.1", 0)) as master, socket.create_server(("127.0.0.1", 0)) as gone:
        there, nowhere = master.getsockname()[1], gone.getsockname()[1]
        gone.close()
        assert address_towards(f"spark://127.0.0.1:{there}") == "127.0.0.1"
        assert address_towards(f"spark://127.0.0.1:{nowhere},127.0.0.1:{there}") == "127.0.0.1"
        with pytest.raises(ConnectionLost, match=r"no Spark master at spark://127.*is it running there"):
            address_towards(f"spark://127.0.0.1:{nowhere}")
    assert address_towards("k8s://https://host:443") is None
    with pytest.raises(InvalidRequest, match="is not spark://HOST:PORT"):
        address_towards("spark://host:port")


def test_the_zip_has_all_code_and_nothing_else_to_compile(package: Path) -> None:
    with ZipFile(package) as found:
        names = set(found.namelist())
    assert {"pyspark_quiver.py", "quiver/__init__.py", "quiver_spark/runtime/log4j2.properties"} <= names
    assert not [name for name in names if "__pycache__" in name]
    assert {f"{name}c" for name in names if name.endswith(".py")} == {name for name in names if name.endswith(".pyc")}
    shipped = zipimport.zipimporter(str(package))
    assert shipped.get_filename("pyspark_quiver").endswith(".pyc")


def test_the_shipped_code_runs(package: Path) -> None:
    """Also where it lies beside an installed version, which is not used then."""
    check = (
        f"import sys; sys.path.insert(0, {str(package)!r}); import pyspark_quiver;"
        " import quiver_spark.runtime.shipping as it;"
        " print(it.__file__, it.is_shipped()); it.write_package(it.Path('again.zip'))"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert done.stdout.split() == [f"{package}/quiver_spark/runtime/shipping.pyc", "True"]
    assert "this is a shipped quivermq already" in done.stderr


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pipeline", "package", "--out", str(tmp_path / "code.tar")]) == 1
    assert run(["pipeline", "package", "--out", str(tmp_path / "none" / "code.zip")]) == 1
    said = capsys.readouterr().err
    assert "does not end with .zip" in said
    assert "cannot be written: No such file or directory" in said


def test_a_lake_that_the_driver_does_not_share(tmp_path: Path) -> None:
    """Workers wrote to disks of their own: nothing is committed."""
    lake = open_lake(tmp_path / "lake", create=True)
    file = LakeFile("orders", "2026-01-31", 0, 0, 10, "a", rows=10)
    with pytest.raises(InvalidRequest, match=r"the workers wrote topic=orders/.*driver and all workers share"):
        lake.commit([file], [Advance("orders", 7, 0, None, 10)], {})
    assert open_lake(tmp_path / "lake").position("orders", 7, 0) is None


def test_how_many_tasks_a_read_is_planned_for() -> None:
    assert cores(read_options({"topic": "orders", "parallelism": "640"}, now_ms=0)) == 640
    assert cores(read_options({"topic": "orders"}, now_ms=0)) == len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'o78.\n: java.io.IOException: Cannot run program "/x/python": error=2, No such file or directory\n\tat',
            r"no Python /x/python can be run there \(No such file or directory\): name by spark.pyspark.python one",
        ),
        ("Traceback:\n  File\nModuleNotFoundError: No module named 'msgspec'\n", "has no module 'msgspec': install"),
        ("quiver.model.errors.ConnectionLost: no connection to x:1: refused\nCannot run", "no connection to x:1"),
    ],
)
def test_what_went_wrong_on_the_workers(text: str, expected: str) -> None:
    with pytest.raises(Exception, match=expected):
        raise error_in(text, "the archive")
