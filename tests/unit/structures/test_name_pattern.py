import pytest

from quiver.model.errors import InvalidRequest
from quiver.structures.name_pattern import check_pattern, matching


def test_a_pattern_matches_whole_names() -> None:
    assert matching("orders|em.*", ["orders", "ordersx", "emails", "x"]) == ["orders", "emails"]
    assert matching(".*", []) == []


def test_an_expression_that_backtracks_for_ever_elsewhere_is_answered() -> None:
    assert matching("(a+)+", ["a" * 239 + "b"]) == []


@pytest.mark.parametrize("bad", ["(", "a{100000}", "(?=a)b", "x" * 1001, "\ud800"])
def test_what_is_no_pattern_is_refused_with_the_reason(bad: str) -> None:
    with pytest.raises(InvalidRequest, match="pattern"):
        check_pattern(bad)
