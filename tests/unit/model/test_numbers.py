import pytest

from quiver.model.dead_letter import parse_dead_letter_cursor, parse_dead_letter_id
from quiver.model.errors import InvalidRequest, InvalidSetting
from quiver.model.numbers import HIGHEST, shown, whole_number
from quiver.model.position import parse_position
from quiver.model.schedule import parse_delayed_id
from quiver.model.times import parse_duration_ms, parse_time_ms
from quiver.model.topic import TopicConfig

NOT_NUMBERS = [
    "",
    "-1",
    "+1",
    " 1",
    "1_000",
    "1.0",
    "\u00b2\u00b2\u00b2\u00b2\u00b2",
    "\u0661\u0662\u0663",
    "9" * 5000,
    str(2**63),
]


def test_plain_digits_are_numbers() -> None:
    assert [whole_number(text) for text in ("0", "007", str(HIGHEST))] == [0, 7, HIGHEST]
    assert [whole_number(text) for text in NOT_NUMBERS] == [None] * len(NOT_NUMBERS)


@pytest.mark.parametrize("text", ["\u00b2\u00b2\u00b2\u00b2\u00b2", "9" * 5000, "9" * 1_000_000])
def test_texts_that_look_like_numbers_are_refused_with_a_sentence_of_bounded_length(text: str) -> None:
    for parse in (
        lambda: parse_time_ms(text),
        lambda: parse_duration_ms(text),
        lambda: parse_duration_ms(text + "s"),
        lambda: parse_position(text, 0),
        lambda: parse_dead_letter_id(f"0:{text}"),
        lambda: parse_dead_letter_cursor(f"0:{text}:1"),
        lambda: parse_delayed_id(f"{text}:0"),
        lambda: TopicConfig().changed({"partitions": text}),
    ):
        with pytest.raises((InvalidRequest, InvalidSetting)) as caught:
            parse()
        assert len(str(caught.value)) < 400


def test_long_values_are_cut_in_sentences() -> None:
    assert shown("x" * 5) == "'xxxxx'"
    assert len(shown("x" * 100_000)) < 110
    assert len(shown(list(range(1000)))) < 110
