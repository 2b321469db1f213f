"""Quiver's own code as one zip, which Spark gives to the Python processes of a cluster.

The zip has no compiled libraries: those that Quiver needs must be on the workers (docs/spark-cluster.md).
"""

import importlib.util
import marshal
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from quiver.model.errors import InvalidRequest

if TYPE_CHECKING:
    from pyspark import SparkContext

ZIP_NAME = "quiver-spark.zip"
NEEDED_ON_WORKERS = ("google-crc32c", "msgspec", "numpy", "pyarrow", "zstandard")
"""What a Python of a worker must have of its own; everything else that tasks import is in the zip or in Spark."""
_PACKAGES = ("quiver", "quiver_spark")
_MODULES = ("pyspark_quiver",)
_STREAM_FILES = "streaming_job"
_LEFT_OUT = ("__pycache__",)
_UNCHECKED_HASH = (1).to_bytes(4, "little")
"""The flags of bytecode that is used as it is: the source that it was made of is in the zip too."""


class Package(NamedTuple):
    path: Path
    files: int
    size_bytes: int


def write_package(path: Path) -> Package:
    """Writes the zip; a file that is there is replaced."""
    if path.suffix != ".zip":
        raise InvalidRequest(problem=f"{str(path)!r} does not end with .zip, and Spark would not take it for code")
    root = _root()
    with ZipFile(path, "w", ZIP_DEFLATED) as package:
        for source in _sources(root):
            name = str(source.relative_to(root))
            _add(package, name, source.read_bytes())
            if source.suffix == ".py":
                _add(package, f"{name}c", _bytecode(source))
        count = len(package.namelist())
    return Package(path, count, path.stat().st_size)


def ship(context: "SparkContext") -> None:
    """Gives the code of this process to all that run tasks of a context; once, and not if the user has done it."""
    if not is_shipped() and not any(str(url).endswith(f"/{ZIP_NAME}") for url in context.listFiles):
        context.addPyFile(str(Path(_directory().name) / ZIP_NAME))
    _give_to_planners_of_streams()


def _give_to_planners_of_streams() -> None:
    """Spark 4.3 has the process that plans a stream look for shipped files in a folder that it never fills."""
    from pyspark import SparkFiles

    here, there = Path(SparkFiles.get(ZIP_NAME)), Path(SparkFiles.getRootDirectory()) / _STREAM_FILES / ZIP_NAME
    if here.is_file() and not there.exists():
        there.parent.mkdir(exist_ok=True)
        shutil.copyfile(here, there)


def is_shipped() -> bool:
    """Whether this process itself runs from the zip."""
    return not Path(__file__).is_file()


@cache
def _directory() -> "tempfile.TemporaryDirectory[str]":
    """Has the zip as long as this process lives: workers that come later fetch it then."""
    directory = tempfile.TemporaryDirectory(prefix="quiver-spark-")
    write_package(Path(directory.name) / ZIP_NAME)
    return directory


def _root() -> Path:
    if is_shipped():
        raise InvalidRequest(problem="this is a shipped quivermq already: make the zip where it is installed")
    return Path(__file__).parents[2]


def _sources(root: Path) -> Iterator[Path]:
    for package in _PACKAGES:
        for file in sorted((root / package).rglob("*")):
            if file.is_file() and not set(_LEFT_OUT) & set(file.parts):
                yield file
    for module in _MODULES:
        yield root / f"{module}.py"


def _bytecode(source: Path) -> bytes:
    """Without it every Python process on the workers would compile what it imports."""
    code = SourceFileLoader(source.stem, str(source)).get_code(source.stem)
    digest = importlib.util.source_hash(source.read_bytes())
    return importlib.util.MAGIC_NUMBER + _UNCHECKED_HASH + digest + marshal.dumps(code)


def _add(package: ZipFile, name: str, data: bytes) -> None:
    package.writestr(ZipInfo(name), data, ZIP_DEFLATED, compresslevel=1)
