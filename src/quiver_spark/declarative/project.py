"""Writes the project of a declarative pipeline."""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from quiver.model.dead_letter import dead_letter_topic
from quiver.model.errors import InvalidRequest
from quiver.model.names import check_name
from quiver_spark.options.option_map import DEFAULT_BOOTSTRAP

_SUFFIX = ".txt"
"""What a file of the template has after its name."""


def write_project(
    place: Path, *, source: str = "orders", target: str = "large-orders", bootstrap: str | None = None
) -> list[Path]:
    """Writes all files into a new or empty directory, whose name is that of the pipeline. Returns what it wrote."""
    place = place.absolute()
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise InvalidRequest(problem=f"{place} exists: name a new directory for the pipeline")
    words = {
        "name": check_name(place.name, "pipeline"),
        "place": str(place),
        "source": check_name(source),
        "target": check_name(target),
        "dead_letters": dead_letter_topic(source),
        "bootstrap": bootstrap or DEFAULT_BOOTSTRAP,
    }
    return sorted(_write(files("quiver_spark.declarative").joinpath("template"), place, words))


def _write(template: Any, place: Path, words: Mapping[str, str]) -> list[Path]:
    place.mkdir(parents=True, exist_ok=True)
    written = []
    for entry in template.iterdir():
        if entry.is_dir():
            written += _write(entry, place / entry.name, words)
        elif entry.name.endswith(_SUFFIX):
            text = entry.read_text()
            for name, word in words.items():
                text = text.replace("{{" + name + "}}", word)
            path = place / entry.name.removesuffix(_SUFFIX)
            path.write_text(text)
            written.append(path)
    return written
