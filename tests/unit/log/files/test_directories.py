"""Names of directories are made durable once, with as few syncs as possible."""

from pathlib import Path

import pytest

from quiver.log.files.directories import Directories
from quiver.system.files import Files


class CountingFiles(Files):
    """Remembers which directories were synced; `during_sync` is called in the middle of the next sync."""

    def __init__(self) -> None:
        self.synced: list[str] = []
        self.during_sync = lambda: None

    def sync_directory(self, path: Path) -> None:
        self.synced.append(path.name)
        during, self.during_sync = self.during_sync, lambda: None
        during()
        super().sync_directory(path)

    def taken(self) -> list[str]:
        taken, self.synced = self.synced, []
        return taken


@pytest.fixture
def files() -> CountingFiles:
    return CountingFiles()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "root"
    path.mkdir()
    return path


def test_one_sync_of_the_parent_serves_all_directories_that_were_made_before(
    root: Path, files: CountingFiles
) -> None:
    directories = Directories(root, files)
    for name in "abc":
        directories.make(root / "topic" / name)
    directories.sync(root / "topic" / "a")
    assert files.taken() == ["a", "topic", "root"]
    directories.sync(root / "topic" / "b")
    directories.sync(root / "topic" / "a")
    assert files.taken() == ["b", "a"]
    directories.make(root / "topic" / "d")
    directories.sync(root / "topic" / "d")
    assert files.taken() == ["d", "topic"]


def test_a_directory_of_an_earlier_process_is_not_known_to_be_durable(root: Path, files: CountingFiles) -> None:
    (root / "topic" / "a").mkdir(parents=True)
    Directories(root, files).sync(root / "topic" / "a")
    assert files.taken() == ["a", "topic", "root"]


def test_a_directory_that_is_made_during_the_sync_needs_the_next_one(root: Path, files: CountingFiles) -> None:
    directories = Directories(root, files)
    directories.make(root / "a")
    directories.sync(root / "a")
    directories.make(root / "b")
    files.taken()

    def made_while_the_parent_is_synced() -> None:
        files.during_sync = lambda: directories.make(root / "c")

    files.during_sync = made_while_the_parent_is_synced
    directories.sync(root / "b")
    directories.sync(root / "c")
    assert files.taken() == ["b", "root", "c", "root"]


def test_what_was_removed_is_not_durable_when_it_is_made_again(root: Path, files: CountingFiles) -> None:
    directories = Directories(root, files)
    for _ in range(2):
        directories.make(root / "topic" / "a")
        directories.sync(root / "topic" / "a")
        assert files.taken() == ["a", "topic", "root"]
        directories.forget(root / "topic")
        files.remove_tree(root / "topic")


def test_a_removal_during_the_sync(root: Path, files: CountingFiles) -> None:
    directories = Directories(root, files)
    directories.make(root / "a")
    directories.make(root / "b")

    def removed_while_the_parent_is_synced() -> None:
        files.during_sync = remove

    def remove() -> None:
        directories.forget(root / "b")
        files.remove_tree(root / "b")

    files.during_sync = removed_while_the_parent_is_synced
    directories.sync(root / "a")
    directories.make(root / "b")
    files.taken()
    directories.sync(root / "b")
    assert files.taken() == ["b", "root"]
