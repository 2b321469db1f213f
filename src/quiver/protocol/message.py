"""The base of everything that is sent."""

import msgspec


class Message(msgspec.Struct, array_like=True, frozen=True):
    """A MessagePack array that begins with its tag. New fields are only ever added at the end, with defaults."""
