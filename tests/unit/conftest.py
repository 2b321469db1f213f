"""What every unit test gets: files that a killed or abandoned log left open are closed after it."""

import os
from collections.abc import Iterator

import pytest

from quiver.log.files.open_files import OpenFile, OpenFiles


@pytest.fixture(autouse=True)
def abandoned_files_are_closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A killed process leaves no descriptors; a kill that a test plays leaves them in the test's own process."""
    created: list[OpenFiles] = []
    init = OpenFiles.__init__

    def remember(self: OpenFiles, *args: object, **options: object) -> None:
        init(self, *args, **options)  # type: ignore[arg-type]
        created.append(self)

    monkeypatch.setattr(OpenFiles, "__init__", remember)
    yield
    for each in created:
        for file in list(each._recent):
            _close(file)


def _close(file: OpenFile) -> None:
    link = f"/proc/self/fd/{file.fd}"
    try:
        is_real = os.readlink(link).startswith(str(file.path))
    except OSError:  # a file in memory
        return
    if is_real:
        os.close(file.fd)
        file.fd = -1
