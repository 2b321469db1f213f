"""Values as JSON: plain data, dataclasses, msgspec structs and pydantic models, in both directions.

Pydantic is not needed: a model is whatever has `model_dump_json` and `model_validate_json`.
"""

from functools import lru_cache
from typing import Any

import msgspec


def _encode_model(value: Any) -> msgspec.Raw:
    dump = getattr(type(value), "model_dump_json", None)
    if dump is None:
        raise TypeError(f"there is no JSON for objects of type {type(value).__name__}")
    return msgspec.Raw(dump(value).encode())


def _decode_model(kind: Any, data: Any) -> Any:
    validate = getattr(kind, "model_validate_json", None)
    if validate is None:
        raise TypeError(f"objects of type {kind!r} are not made from JSON")
    return validate(encode_json(data))


encode_json = msgspec.json.Encoder(enc_hook=_encode_model).encode


@lru_cache(maxsize=256)
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind, dec_hook=_decode_model)


def decode_json(data: bytes, kind: Any = Any) -> Any:
    """The data as a `kind`, a class or a type such as `list[Order]`. Raises ValueError if it is not JSON of that
    shape."""
    validate = getattr(kind, "model_validate_json", None)
    return _decoder(kind).decode(data) if validate is None else validate(data)
