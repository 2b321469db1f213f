"""What is written on a dead letter, and what is left when it goes back to work."""

from hypothesis import given
from hypothesis import strategies as st

from quiver.dead_letters.headers import NAMES, DeadLetterOrigin, read_dead_letter, to_dead_letter, to_message
from quiver.messages.stored_rows import StoredRow
from quiver.model.dead_letter import Original, dead_letter_topic, is_dead_letter_topic
from quiver.model.message import NewMessage
from quiver.model.names import check_name
from quiver.model.priority import Priority
from quiver.queues.state.port import Dead

HEADERS = st.dictionaries(st.text(max_size=5), st.binary(max_size=5), max_size=3)
MESSAGES = st.builds(
    NewMessage,
    value=st.none() | st.binary(max_size=9),
    key=st.none() | st.binary(max_size=9),
    headers=st.none() | HEADERS,
    timestamp_ms=st.integers(0, 10**13),
    priority=st.sampled_from(list(Priority)),
    expires_at_ms=st.none() | st.integers(5_000, 10**10),
    id=st.none() | st.binary(max_size=4),
)
DEAD = st.builds(
    Dead,
    start=st.just(7),
    end=st.just(8),
    level=st.just(2),
    attempts=st.integers(0, 100),
    first_delivered_ms=st.integers(0, 10**13),
    reason=st.sampled_from(["max_attempts", "rejected", "expired"]),
    error=st.text(max_size=20),
)


@given(MESSAGES, DEAD)
def test_a_letter_tells_all_and_goes_back_as_it_was(message: NewMessage, dead: Dead) -> None:
    row = StoredRow(7, 5_000, 0, message)
    dead_letter_row = StoredRow(3, 9_000, 0, to_dead_letter(row, DeadLetterOrigin("orders", 1, "g", 8_000, dead)))
    dead_letter = read_dead_letter(4, dead_letter_row)
    assert (dead_letter.value, dead_letter.key, dead_letter.headers) == (
        message.value,
        message.key,
        message.headers or {},
    )
    assert (dead_letter.timestamp_ms, dead_letter.priority) == (message.timestamp_ms, message.priority)
    assert (dead_letter.reason, dead_letter.last_error, dead_letter.attempts, dead_letter.group) == (
        dead.reason,
        dead.error,
        dead.attempts,
        "g",
    )
    assert dead_letter.original == Original("orders", 1, 7, 5_000, dead.first_delivered_ms or None)
    assert (dead_letter.died_at_ms, str(dead_letter.id)) == (9_000, "4:3")
    assert dead_letter_row.message.expires_at_ms is None, "a dead letter does not expire"

    back = to_message(dead_letter_row, 50_000)
    assert (back.value, back.key, back.headers or {}) == (message.value, message.key, message.headers or {})
    assert (back.timestamp_ms, back.priority, back.id) == (message.timestamp_ms, message.priority, message.id)
    ttl = message.expires_at_ms
    assert back.expires_at_ms == (None if ttl is None else 50_000 + ttl - 5_000), "its time to live starts over"


def test_every_field_has_a_header_of_its_own() -> None:
    message = NewMessage(value=b"v", key=b"k", timestamp_ms=1, expires_at_ms=9_000)
    dead = Dead(7, 8, 2, 3, 4, "rejected", "because")
    headers = to_dead_letter(StoredRow(7, 5_000, 0, message), DeadLetterOrigin("orders", 1, "g", 8_000, dead)).headers
    assert headers is not None
    assert headers.keys() == NAMES
    assert headers["dlq.key"] == b"k"
    assert headers["dlq.died_at"] == b"1970-01-01T00:00:08.000Z"


def test_a_dead_letter_of_a_dead_letter_keeps_one_set_of_headers() -> None:
    """A dead letter, published again with all its headers, may become one again."""
    first = to_dead_letter(
        StoredRow(7, 5_000, 0, NewMessage(value=b"v", timestamp_ms=1)),
        DeadLetterOrigin("old", 0, "a", 6_000, Dead(7, 8, 2, 3, 4, "rejected", "old error")),
    )
    again = to_dead_letter(
        StoredRow(9, 7_000, 0, first), DeadLetterOrigin("new", 1, "b", 8_000, Dead(9, 10, 2, 1, 4, "expired", ""))
    )
    dead_letter = read_dead_letter(0, StoredRow(0, 8_000, 0, again))
    assert dead_letter.original is not None
    assert (dead_letter.original.topic, dead_letter.original.offset) == ("new", 9)
    assert (dead_letter.group, dead_letter.reason, dead_letter.last_error) == ("b", "expired", "")


@given(st.dictionaries(st.sampled_from(sorted(NAMES)), st.binary(max_size=30)))
def test_headers_of_anybody_break_nothing(headers: dict[str, bytes]) -> None:
    row = StoredRow(3, 9_000, 0, NewMessage(value=b"v", headers=headers, timestamp_ms=1))
    assert read_dead_letter(0, row).headers == {}
    assert to_message(row, 1).headers == {}


def test_long_errors_are_cut() -> None:
    dead = Dead(7, 8, 2, 3, 4, "rejected", "ü" * 1_000_000)
    message = to_dead_letter(
        StoredRow(7, 0, 0, NewMessage(value=b"", timestamp_ms=1)), DeadLetterOrigin("t", 0, "g", 0, dead)
    )
    dead_letter = read_dead_letter(0, StoredRow(0, 0, 0, message))
    assert dead_letter.last_error.startswith("üüü")
    assert len(dead_letter.last_error.encode()) <= 4100


@given(st.text("abc.-_", min_size=1, max_size=240))
def test_every_topic_has_a_dead_letter_topic(name: str) -> None:
    dead_letters = dead_letter_topic(name)
    assert is_dead_letter_topic(check_name(dead_letters))
    assert dead_letter_topic(dead_letters) == dead_letters


def test_long_names_have_dead_letter_topics_of_their_own() -> None:
    names = ["a" * 236, "a" * 237, "a" * 239 + "b", "a" * 239 + "c"]
    assert len({dead_letter_topic(name) for name in names}) == len(names)
    assert dead_letter_topic("a" * 236) == "a" * 236 + ".dlq"
