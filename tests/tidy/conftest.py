"""The syntax trees of all files are kept while rules look at them, and not for the tests that follow."""

import gc
from collections.abc import Iterator

import pytest

from tidy.source_tree import text_of, tree_of


@pytest.fixture(scope="package", autouse=True)
def trees() -> Iterator[None]:
    """They are millions of objects, which the garbage collector would look at again and again."""
    gc.disable()
    yield
    gc.enable()
    tree_of.cache_clear()
    text_of.cache_clear()
