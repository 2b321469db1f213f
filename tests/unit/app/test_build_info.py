"""Which code is running."""

from pathlib import Path

import pytest

from quiver.app.build_info import UNKNOWN, build_info, read_checkout

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_a_branch_names_its_commit(tmp_path: Path) -> None:
    (tmp_path / "HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / "refs/heads").mkdir(parents=True)
    (tmp_path / "refs/heads/main").write_text(COMMIT + "\n")
    commit, time = read_checkout(tmp_path)
    assert commit == COMMIT
    assert time.endswith("Z")


def test_a_packed_branch_names_its_commit(tmp_path: Path) -> None:
    (tmp_path / "HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / "packed-refs").write_text(f"# pack-refs with: peeled\n{COMMIT} refs/heads/main\n")
    assert read_checkout(tmp_path)[0] == COMMIT


def test_a_detached_head_is_the_commit(tmp_path: Path) -> None:
    (tmp_path / "HEAD").write_text(COMMIT)
    assert read_checkout(tmp_path)[0] == COMMIT


def test_without_a_checkout_it_is_unknown(tmp_path: Path) -> None:
    assert read_checkout(tmp_path / "nothing") == (UNKNOWN, UNKNOWN)


def test_an_image_build_says_it_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUIVER_GIT_COMMIT", "abc")
    monkeypatch.setenv("QUIVER_BUILD_TIME", "2026-01-01T00:00:00Z")
    info = build_info()
    assert (info.git_commit, info.build_time) == ("abc", "2026-01-01T00:00:00Z")
