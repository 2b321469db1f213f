"""The modules that docs/architecture.md names are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
MODULES = sorted(set(re.findall(r"`([\w/]+\.py)`", PAGE.read_text())))


def test_it_names_modules() -> None:
    assert len(MODULES) > 30


@pytest.mark.parametrize("name", MODULES)
def test_a_module_that_the_page_names_exists(name: str) -> None:
    """By its path from `src/quiver`, or from the root of the project."""
    assert "/" in name, "with its folder, so that it is found"
    assert (ROOT / "src" / "quiver" / name).exists() or (ROOT / name).exists()
