"""The eight bytes a client sends first, so that a wrong peer is told so at once instead of being misread."""

from quiver.model.errors import ProtocolError, QuiverError, UnsupportedVersion

_NAME = b"QUIVER\x00"
PREFACE_VERSION = 1
PREFACE = _NAME + bytes([PREFACE_VERSION])

_HTTP_METHODS = (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"PATC", b"OPTI", b"CONN", b"PRI ", b"TRAC")


def preface_problem(received: bytes | bytearray | memoryview) -> QuiverError | None:
    """What is wrong with the first bytes of a connection, as early as it can be told; None when nothing is yet."""
    start = bytes(received[: len(PREFACE)])
    if PREFACE.startswith(start):
        return None
    if len(start) == len(PREFACE) and start.startswith(_NAME):
        return UnsupportedVersion(
            problem=f"the client speaks packet format {start[-1]}, this broker speaks {PREFACE_VERSION}"
        )
    if start[:1] == b"\x16" and start[1:2] in (b"", b"\x03"):
        return ProtocolError(problem="the client began with TLS, but this port is not encrypted; connect without TLS")
    if len(start) >= 4 and start[:4] in _HTTP_METHODS:
        return ProtocolError(problem="the client speaks HTTP; HTTP has a port of its own (7480 unless configured)")
    if any(method.startswith(start) for method in _HTTP_METHODS):
        return None
    return ProtocolError(problem=f"a connection begins with {PREFACE!r}, this one began with {start!r}")
