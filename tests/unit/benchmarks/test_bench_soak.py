"""The verdict of a long run, and its picture."""

from xml.etree import ElementTree

import pytest
from benchmarks.soak.plot import plot
from benchmarks.soak.samples import Sample
from benchmarks.soak.verdict import verdict

MB = 1_000_000


def _samples(seconds: float, memory: tuple[int, int], store: tuple[int, int] = (100, 100)) -> list[Sample]:
    """From one value to another in a straight line."""

    def at(ends: tuple[int, int], share: float) -> int:
        return round((ends[0] + (ends[1] - ends[0]) * share) * MB)

    return [
        Sample(
            seconds=seconds * number / 100,
            published=number * 1000,
            memory_bytes=at(memory, number / 100),
            resident_bytes=at(memory, number / 100),
            open_files=50,
            cpu_seconds=number,
            store_bytes=at(store, number / 100),
        )
        for number in range(101)
    ]


@pytest.mark.parametrize(
    ("samples", "found"),
    [
        (_samples(600, (200, 210)), "steady"),
        (_samples(600, (200, 400)), "grows: memory_bytes"),
        (_samples(600, (200, 200), (100, 500)), "grows: store_bytes"),
        (_samples(60, (200, 400)), "too short"),
    ],
)
def test_what_grows_is_named(samples: list[Sample], found: str) -> None:
    assert verdict(samples).startswith(found)


def test_what_grows_only_while_caches_fill_is_steady() -> None:
    samples = _samples(600, (200, 200))
    for sample in samples[:20]:
        sample.memory_bytes = 50 * MB
    assert verdict(samples) == "steady"


def test_the_picture_has_a_line_for_each_figure() -> None:
    lines = ElementTree.fromstring(plot("local-load: <steady>", _samples(600, (200, 210)))).iter()
    labels = {each.text for each in lines if each.tag.endswith("text")}
    assert {"local-load: <steady>", "allocated", "resident", "store", "published", "open files"} <= labels
    assert "dead" not in labels, "files have no rows"
