"""GET messages of a partition by offset or time. Large pages are streamed."""

from collections.abc import AsyncIterator
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import unquote

import msgspec
from msgspec import UNSET, Meta, UnsetType

from quiver.gateways.http.answer import Answer, StreamedAnswer
from quiver.gateways.http.media import JSON
from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.routes.message import StoredMessageAnswer, message_answer
from quiver.model.errors import (
    CorruptData,
    InvalidName,
    InvalidRequest,
    OffsetOutOfRange,
    PartitionNotFound,
    QuiverError,
    TopicNotFound,
)
