"""Dead letters grouped by the shape of their error."""

from collections.abc import AsyncIterator, Sequence

import pytest

from quiver.dead_letters.error_shapes import error_shape, grouped
from quiver.model.dead_letter import DeadLetter
from quiver.model.priority import Priority


@pytest.mark.parametrize(
    ("errors", "shape"),
    [
        (["timeout after 30 s", "timeout after 5.5 s"], "timeout after # s"),
        (["no user 'ann'", 'no user "bob"', "no user ''"], "no user '*'"),
        (["order 3f2504e0-4f89-11d3-9a0c-0305e82c3301 is gone"], "order # is gone"),
        (["at 0x7f1ddc53add0", "at 0x1"], "at #"),
        (["10.0.0.1:5432 refused", "10.0.0.2:5432 refused"], "# refused"),
        (["it doesn't fit and won't"], "it doesn't fit and won't"),
        ([""], ""),
    ],
)
def test_errors_of_one_kind_have_one_shape(errors: list[str], shape: str) -> None:
    assert {error_shape(error) for error in errors} == {shape}


async def walk(errors: Sequence[tuple[str, str]]) -> AsyncIterator[DeadLetter]:
    for n, (error, group) in enumerate(errors):
        yield DeadLetter(0, 100 - n, 0, 1000 - n, None, b"", {}, Priority.NORMAL, "rejected", error, 1, group)


async def test_groups_have_counts_times_and_an_example() -> None:
    found = await grouped(walk([("bad 1", "g"), ("bad 2", "g"), ("bad 3", "h"), ("worse", "g")]), 100)
    assert [(group.shape, group.group, group.dead_letter_count) for group in found.groups] == [
        ("bad #", "g", 2),
        ("bad #", "h", 1),
        ("worse", "g", 1),
    ]
    first = found.groups[0]
    assert (first.first_ms, first.last_ms, first.example, str(first.example_id)) == (999, 1000, "bad 1", "0:100")
    assert (found.looked_at, found.is_complete) == (4, True)


async def test_what_is_looked_at_is_bounded() -> None:
    found = await grouped(walk([("x", "g")] * 10), 4)
    assert (found.looked_at, found.is_complete, found.groups[0].dead_letter_count) == (4, False, 4)
    many = await grouped(walk([("e" * n, "g") for n in range(250)] * 5), 10_000)
    assert sum(group.dead_letter_count for group in many.groups) == 1250
