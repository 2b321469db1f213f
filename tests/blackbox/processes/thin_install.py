"""An installation of the wheel with no extras, or some, made of this environment: nothing is downloaded."""

import subprocess
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[3]


def build_wheel(directory: Path) -> Path:
    """As docs/install.md builds it, with the build tools of this environment."""
    options = ["--no-build-isolation", "--disable-pip-version-check", "--quiet"]
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(directory), *options, str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    [wheel] = directory.glob("*.whl")
    return wheel


class ThinInstall:
    """The unpacked wheel, and of this environment only what its metadata asks for."""

    def __init__(self, directory: Path, *extras: str) -> None:
        self.packages = directory / "packages"
        self.packages.mkdir(parents=True)
        self.wheel = build_wheel(directory / "dist")
        with ZipFile(self.wheel) as archive:
            archive.extractall(self.packages)
            [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
            description = metadata.PathDistribution(self.packages / Path(name).parent)
        self.installed: set[str] = set()
        for requirement in description.requires or []:
            self._install(requirement, extras)

    def python(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs a program that finds nothing but these packages and the standard library."""
        begin = f"import sys; sys.path[:] = [{str(self.packages)!r}, *sys.path]\n"
        command = [sys.executable, "-I", "-S", "-c", begin + program, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    def quiver(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.python("from quiver.__main__ import main; main()", *arguments)

    def _install(self, text: str, extras: Iterable[str]) -> None:
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is not None and not any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            return
        name = requirement.name.lower()
        if name == "quivermq" or name in self.installed:
            return
        self.installed.add(name)
        found = metadata.distribution(name)
        for top in {file.parts[0] for file in found.files or [] if file.parts[0] not in ("..", "__pycache__")}:
            link = self.packages / top
            if not link.exists():
                link.symlink_to(Path(str(found.locate_file(top))))
        for needed in found.requires or []:
            self._install(needed, requirement.extras)
