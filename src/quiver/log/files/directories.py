"""Directories whose names must outlive a power cut."""

from pathlib import Path

from quiver.system.files import Files


def sync_up(files: Files, directory: Path, root: Path) -> None:
    """Makes the names in a directory durable, and its own and those of the directories above it, up to a root."""
    files.sync_directory(directory)
    while directory != root:
        directory = directory.parent
        files.sync_directory(directory)
