from quiver.model.errors import CATALOGUE, QuiverError, TopicNotFound, error_from_wire


def test_codes_are_unique_and_every_status_is_an_error() -> None:
    kinds = list(CATALOGUE.values())
    assert len({kind.code for kind in kinds}) == len(kinds)
    assert all(400 <= kind.status < 600 for kind in kinds)
    assert all(kind.__module__ == "quiver.model.errors" for kind in kinds)


def test_the_sentence_is_filled_in() -> None:
    error = TopicNotFound(topic="orders")
    assert "'orders'" in error.message
    assert error.to_dict() == {
        "error": error.message,
        "code": "topic_not_found",
        "retryable": False,
        "status": 404,
    }


def test_an_unknown_code_from_the_wire_keeps_its_code() -> None:
    error = error_from_wire("from_the_future", "do this", retryable=True)
    assert type(error) is QuiverError
    assert (error.code, error.message, error.retryable) == ("from_the_future", "do this", True)
    assert isinstance(error_from_wire("topic_not_found", "gone"), TopicNotFound)
