"""Which code is running: version, commit and build time, for /version and the log."""

import os
from pathlib import Path
from typing import NamedTuple

import quiver
from quiver.model.times import format_time

UNKNOWN = "unknown"


class BuildInfo(NamedTuple):
    version: str
    git_commit: str
    build_time: str


def build_info() -> BuildInfo:
    """From QUIVER_GIT_COMMIT and QUIVER_BUILD_TIME (set by image builds), else from the checkout, else unknown."""
    checkout = Path(quiver.__file__).parents[2] / ".git"
    commit, built = read_checkout(checkout)
    return BuildInfo(
        version=quiver.__version__,
        git_commit=os.environ.get("QUIVER_GIT_COMMIT") or commit,
        build_time=os.environ.get("QUIVER_BUILD_TIME") or built,
    )


def read_checkout(git_dir: Path) -> tuple[str, str]:
    """The commit, and when it was checked out."""
    try:
        head = git_dir / "HEAD"
        content = head.read_text().strip()
        if not content.startswith("ref: "):
            return content, _changed_at(head)
        branch = git_dir / content.removeprefix("ref: ")
        if branch.is_file():
            return branch.read_text().strip(), _changed_at(branch)
        packed = git_dir / "packed-refs"
        return _packed_commit(packed.read_text(), content.removeprefix("ref: ")), _changed_at(packed)
    except (OSError, UnicodeDecodeError):
        return UNKNOWN, UNKNOWN


def _packed_commit(packed: str, ref: str) -> str:
    for line in packed.splitlines():
        commit, _, name = line.partition(" ")
        if name == ref:
            return commit
    return UNKNOWN


def _changed_at(path: Path) -> str:
    return format_time(int(path.stat().st_mtime * 1000))
