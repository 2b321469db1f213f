import msgspec
import pytest

from quiver.gateways.http.media import JSON, MSGPACK, media_of_request, media_of_response, weighted
from quiver.model.errors import InvalidRequest, UnsupportedMediaType


class Pair(msgspec.Struct):
    name: str
    count: int = 0


@pytest.mark.parametrize(
    ("content_type", "media"),
    [
        (None, JSON),
        (b"", JSON),
        (b"application/json", JSON),
        (b"Application/JSON; charset=utf-8", JSON),
        (b"application/problem+json", JSON),
        (b"application/x-www-form-urlencoded", JSON),
        (b"application/msgpack", MSGPACK),
        (b"application/x-msgpack", MSGPACK),
        (b"application/vnd.msgpack;v=1", MSGPACK),
    ],
)
def test_the_content_type_says_how_a_body_is_read(content_type, media):
    assert media_of_request(content_type) is media


@pytest.mark.parametrize("content_type", [b"text/plain", b"text/html", b"\xff\xfe", b";"])
def test_other_content_types_are_refused_by_name(content_type):
    with pytest.raises(UnsupportedMediaType, match="application/json"):
        media_of_request(content_type)


@pytest.mark.parametrize(
    ("accept", "request_media", "media"),
    [
        (None, JSON, JSON),
        (None, MSGPACK, MSGPACK),
        (b"*/*", MSGPACK, MSGPACK),
        (b"application/msgpack", JSON, MSGPACK),
        (b"application/json", MSGPACK, JSON),
        (b"application/json;q=0.5, application/msgpack", JSON, MSGPACK),
        (b"application/json, application/msgpack;q=0.5", MSGPACK, JSON),
        (b"text/html, */*;q=0.8", MSGPACK, JSON),
        (b"application/msgpack;q=nonsense", JSON, JSON),
    ],
)
def test_the_response_takes_the_form_the_client_likes_best(accept, request_media, media):
    assert media_of_response(accept, request_media) is media


def test_weights_outside_their_range_count_as_nothing():
    assert weighted(b"a;q=2, b;q=-1, c;q=nan, d;x=1;q=0.3") == [(b"a", 0.0), (b"b", 0.0), (b"c", 0.0), (b"d", 0.3)]


@pytest.mark.parametrize("media", [JSON, MSGPACK])
def test_a_body_is_decoded_as_its_struct(media):
    assert media.decode(media.encode({"name": "a", "count": 2, "unknown": [1]}), Pair) == Pair("a", 2)


@pytest.mark.parametrize("media", [JSON, MSGPACK])
def test_what_does_not_fit_is_named_with_its_place(media):
    with pytest.raises(InvalidRequest, match=r"Expected `int`, got `str` - at `\$.count`"):
        media.decode(media.encode({"name": "a", "count": "2"}), Pair)


@pytest.mark.parametrize("body", [b"{", b"\xff", b'{"name": "\xff"}', b'{"a":' * 100_000, b'{"name": NaN}'])
def test_malformed_json_is_a_clear_error(body):
    with pytest.raises(InvalidRequest, match="JSON"):
        JSON.decode(body, dict)


@pytest.mark.parametrize("body", [b"\xc1", b"\x81", b"\x91" * 100_000])
def test_malformed_messagepack_is_a_clear_error(body):
    with pytest.raises(InvalidRequest):
        MSGPACK.decode(body, dict)
