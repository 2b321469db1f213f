"""Where the Python processes of a local session import PySpark from."""

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_HOME = "SPARK_HOME"
_ZIPS = "python"


@contextmanager
def installed_pyspark() -> Iterator[Path | None]:
    """A Spark that is started in this block has its Python processes import the installed PySpark. Gives its home, or
    None for one that stays as it is.

    Spark puts the zip of PySpark that is in its home in front of everything else. It has sources only, and each of
    the Python processes that Spark starts, four for a first query, would compile what it imports, for 0.7 s. With a
    home that lacks the zip they find the package of this Python, which is compiled. A home or a Python that the user
    has chosen stays.
    """
    home = None
    if _HOME not in os.environ and os.environ.get("PYSPARK_PYTHON") == sys.executable:
        home = _home_without_zips()
    if home is None:
        yield None
        return
    os.environ[_HOME] = str(home)
    try:
        yield home
    finally:
        del os.environ[_HOME]


def _home_without_zips() -> Path | None:
    """None if it cannot be made. Its path is the same for each session: what Java remembers of its classes fits."""
    import pyspark
    from pyspark.find_spark_home import _find_spark_home

    installed = Path(_find_spark_home())
    if installed != Path(pyspark.__path__[0]):
        return None
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "quiver-spark"
    digest = hashlib.sha256(str(installed).encode()).hexdigest()[:12]
    home = cache / f"home-{pyspark.__version__}-{digest}"
    try:
        if not home.is_dir():
            _make_home(home, installed)
    except OSError:
        return None
    return home


def _make_home(home: Path, installed: Path) -> None:
    """Links to all parts of the installed one but the zips. Two processes may do this at the same time."""
    home.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix="home-", dir=home.parent))
    for part in installed.iterdir():
        if part.name != _ZIPS:
            made.joinpath(part.name).symlink_to(part)
    try:
        made.rename(home)
    except OSError:
        shutil.rmtree(made)
        if not home.is_dir():
            raise
