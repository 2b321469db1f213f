"""Which archive of classes a session uses, and who makes one; what Java does with good and bad ones."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from quiver_spark.runtime import class_archive
from quiver_spark.runtime.class_archive import QUIET, ClassArchive, await_archives, is_whole, keep, remove_unused

WHOLE = bytes.fromhex("a8ab0bf0") + b"rest"
MONTHS = 90 * 86_400


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Spark home in a cache, and a Python that makes a whole archive at once."""
    home = tmp_path / "cache" / "home"
    (home / "jars").mkdir(parents=True)
    (home / "jars" / "spark.jar").write_bytes(b"jar")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nprintf \'\\250\\253\\013\\360rest\' > "$3-8.jsa"\necho "$3" >> {tmp_path}/made\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    return home


def _start(home: Path, java_version: str) -> str:
    """As a session does; the options that it gives to Java."""
    archive = ClassArchive(home, java_version)
    options = archive.options()
    assert not class_archive._makers, "none is made before the session is there"
    archive.make_if_missing()
    return options


def _archive(options: str) -> Path:
    return Path(options.split()[0].removeprefix("-XX:SharedArchiveFile="))


def test_the_first_session_has_it_made_and_the_next_ones_use_it(home: Path) -> None:
    assert _start(home, "17") == ""
    await_archives()
    archive = _archive(_start(home, "17"))
    assert archive.parent == home.parent
    assert _archive(_start(home, "17")) == archive
    assert (home.parent.parent / "made").read_text().split() == [str(archive).removesuffix("-8.jsa")]


def test_another_java_or_other_jars_need_another_archive(home: Path) -> None:
    for version in ("17", "21", "17"):
        if version == "17":
            (home / "jars" / "spark.jar").write_bytes(os.urandom(10 + len(list(home.parent.iterdir()))))
        assert _start(home, version) == ""
        await_archives()
        assert _start(home, version) != ""
    assert len(list(home.parent.glob("*.jsa"))) == 3


@pytest.mark.parametrize("partial", [bytes(8), WHOLE[:7]], ids=["without its header", "cut off"])
def test_a_partial_archive_is_not_used_and_made_again_a_day_later(home: Path, partial: bytes) -> None:
    _start(home, "17")
    await_archives()
    archive = _archive(_start(home, "17"))
    archive.write_bytes(partial)
    assert _start(home, "17") == ""
    assert not class_archive._makers
    (tried,) = home.parent.glob("*.tried")
    os.utime(tried, (0, 0))
    assert _start(home, "17") == ""
    await_archives()
    assert _archive(_start(home, "17")) == archive


@pytest.mark.skipif(shutil.which("java") is None, reason="no Java: scripts/system-packages installs it")
def test_what_java_makes_is_kept_and_what_does_not_fit_does_no_harm(tmp_path: Path) -> None:
    def java(option: str) -> str:
        done = subprocess.run(["java", option, QUIET, "-version"], capture_output=True, text=True, check=True)
        return done.stdout

    assert java(f"-XX:ArchiveClassesAtExit={tmp_path}/made") == ""
    assert keep(tmp_path / "made", tmp_path / "classes-a")
    (archive,) = tmp_path.glob("*.jsa")
    for changed in (None, os.urandom(10_000)):
        if changed is not None:
            archive.chmod(0o600)
            archive.write_bytes(changed)
        assert java(f"-XX:SharedArchiveFile={archive}") == ""
    assert not is_whole(archive)
    assert not keep(tmp_path / "made", tmp_path / "classes-b"), "Java has made none"


def test_a_cache_that_cannot_be_written_is_left_alone(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "open", full)
    assert _start(home, "17") == ""
    assert not class_archive._makers
    spaced = home.parent / "a home"
    (spaced / "home" / "jars").mkdir(parents=True)
    assert _start(spaced / "home", "17") == ""


def test_archives_that_nobody_uses_are_removed(home: Path) -> None:
    used, unused = home.parent / "classes-a.jsa", home.parent / "classes-b.jsa"
    for archive in (used, unused):
        archive.write_bytes(WHOLE)
    os.utime(unused, (unused.stat().st_mtime - MONTHS, unused.stat().st_mtime - MONTHS))
    remove_unused(home.parent)
    assert used.exists()
    assert not unused.exists()
