"""The two forms of a body: JSON and MessagePack."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import msgspec

from quiver.model.errors import InvalidRequest, UnsupportedMediaType

T = TypeVar("T")


class _Decoder(Protocol):
    def decode(self, body: bytes | memoryview | msgspec.Raw, /) -> Any: ...


class Media:
    """Encodes and decodes one form. Decoders are made once per type."""

    __slots__ = ("_decoders", "_make_decoder", "content_type", "encode", "label", "text_of")

    def __init__(
        self,
        label: str,
        content_type: bytes,
        encode: Callable[[Any], bytes],
        make_decoder: Callable[[Any], _Decoder],
        text_of: Callable[[msgspec.Raw], bytes | None],
    ) -> None:
        self.label = label
        self.content_type = content_type
        self.encode = encode
        self.text_of = text_of
        self._make_decoder = make_decoder
        self._decoders: dict[Any, _Decoder] = {}

    def decode(self, body: bytes | memoryview | msgspec.Raw, kind: type[T]) -> T:
        """The body as a `kind`; InvalidRequest says what does not fit, and where."""
        decoder = self._decoders.get(kind)
        if decoder is None:
            decoder = self._decoders[kind] = self._make_decoder(kind)
        try:
            result: T = decoder.decode(body)
        except msgspec.ValidationError as error:
            raise InvalidRequest(problem=f"the request does not fit: {error}") from None
        except RecursionError:
            raise InvalidRequest(problem=f"the {self.label} is nested too deeply") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidRequest(problem=f"the body is not {self.label}: {error}") from None
        return result


_decode_text = msgspec.json.Decoder(str).decode
_decode_packed = msgspec.msgpack.Decoder().decode


def _json_text(raw: msgspec.Raw) -> bytes | None:
    """The bytes of a message value: a JSON string's own text, any other JSON as it was written, None for null."""
    written = bytes(raw)
    if written[:1] == b'"':
        return _decode_text(written).encode()
    return None if written == b"null" else written


def _packed_text(raw: msgspec.Raw) -> bytes | None:
    """The bytes of a message value: binary as it is, text in UTF-8, anything else as JSON, None for nil."""
    value = _decode_packed(raw)
    if value is None or isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else msgspec.json.encode(value)


JSON = Media("JSON", b"application/json", msgspec.json.Encoder().encode, msgspec.json.Decoder, _json_text)
MSGPACK = Media(
    "MessagePack", b"application/msgpack", msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder, _packed_text
)
NDJSON = Media(
    "NDJSON", b"application/x-ndjson", lambda line: JSON.encode(line) + b"\n", msgspec.json.Decoder, _json_text
)
"""For streams: an object per line."""

_BY_TYPE = {
    b"application/json": JSON,
    b"application/x-www-form-urlencoded": JSON,  # what `curl -d` says of whatever it sends
    b"text/json": JSON,
    b"application/msgpack": MSGPACK,
    b"application/x-msgpack": MSGPACK,
    b"application/vnd.msgpack": MSGPACK,
}


def media_of_request(content_type: bytes | None) -> Media:
    """The form a request's body is in; without a content type it is JSON."""
    if not content_type:
        return JSON
    media = _BY_TYPE.get(content_type)
    if media is None:
        bare = content_type.partition(b";")[0].strip().lower()
        media = JSON if bare.endswith(b"+json") else _BY_TYPE.get(bare)
    if media is None:
        raise UnsupportedMediaType(content_type=content_type[:200].decode("latin-1"))
    return media


def media_of_response(accept: bytes | None, request_media: Media) -> Media:
    """The form the client prefers: by its Accept header, else the form of its request."""
    if not accept or accept == b"*/*":
        return request_media
    best, best_weight = request_media, 0.0
    for name, weight in weighted(accept):
        media = _BY_TYPE.get(name)
        if media is not None and weight > best_weight:
            best, best_weight = media, weight
    return best if best_weight else JSON


def weighted(header: bytes) -> list[tuple[bytes, float]]:
    """The names of an Accept-like header with their weights; a weight that cannot be read counts as 0."""
    found = []
    for part in header.lower().split(b",")[:64]:
        name, *parameters = part.split(b";")
        weight = 1.0
        for parameter in parameters:
            key, _, value = parameter.partition(b"=")
            if key.strip() == b"q":
                weight = _weight(value)
        found.append((name.strip(), weight))
    return found


def _weight(text: bytes) -> float:
    try:
        weight = float(text)
    except ValueError:
        return 0.0
    return weight if 0.0 <= weight <= 1.0 else 0.0
