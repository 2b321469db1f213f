"""Where the Python processes of a local session import PySpark from."""

import hashlib
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_HOME = "SPARK_HOME"
_ZIPS, _PROGRAMS, _SUBMIT = "python", "bin", "spark-submit"
_FORM = 2
"""Of the home that is made here; another one gets another name."""
_QUIET_SUBMIT = """#!/usr/bin/env bash
# Spark's own program, without the line that Java begins with because Spark has it load a module of an incubator.
quiet() {{
  if IFS= read -r line; then
    [[ $line == *"Using incubator modules"* ]] || printf '%s\\n' "$line"
  else
    printf '%s' "$line"
  fi
  exec cat
}}
exec {submit} "$@" 2> >(quiet >&2)
"""


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
    digest = hashlib.sha256(f"{installed} {_FORM}".encode()).hexdigest()[:12]
    home = cache / f"home-{pyspark.__version__}-{digest}"
    try:
        if not home.is_dir():
            _make_home(home, installed)
    except OSError:
        return None
    return home


def _make_home(home: Path, installed: Path) -> None:
    """Links to all parts of the installed one but the zips, and a program that starts it without noise. Two processes
    may do this at the same time."""
    home.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix="home-", dir=home.parent))
    (made / _PROGRAMS).mkdir()
    parts = [part for part in installed.iterdir() if part.name not in (_ZIPS, _PROGRAMS)]
    programs = [program for program in (installed / _PROGRAMS).iterdir() if program.name != _SUBMIT]
    for part in (*parts, *programs):
        made.joinpath(part.relative_to(installed)).symlink_to(part)
    submit = made / _PROGRAMS / _SUBMIT
    submit.write_text(_QUIET_SUBMIT.format(submit=shlex.quote(str(installed / _PROGRAMS / _SUBMIT))))
    submit.chmod(0o755)
    try:
        made.rename(home)
    except OSError:
        shutil.rmtree(made)
        if not home.is_dir():
            raise
