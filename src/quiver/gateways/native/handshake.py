"""Hello and Welcome: what both sides can read."""

from quiver.model.errors import UnsupportedVersion
from quiver.model.limits import Limits
from quiver.protocol.messages import CODECS, ENCODINGS, PROTOCOL_VERSION, Hello, Welcome

SOFTWARE = "quiver"


def welcome(hello: Hello, node_id: str, limits: Limits, http_port: int) -> Welcome:
    """The response to a client's Hello; UnsupportedVersion when the two cannot understand each other."""
    if PROTOCOL_VERSION not in hello.versions:
        raise UnsupportedVersion(
            problem=f"the client speaks protocol versions {hello.versions[:20]}, this broker {PROTOCOL_VERSION}"
        )
    if not set(hello.encodings) & set(ENCODINGS):
        raise UnsupportedVersion(
            problem=f"the client reads the encodings {hello.encodings[:20]}, this broker has {', '.join(ENCODINGS)}"
        )
    return Welcome(
        PROTOCOL_VERSION,
        node_id,
        list(CODECS),
        list(ENCODINGS),
        limits.request_bytes,
        limits.frame_bytes,
        limits.message_bytes,
        SOFTWARE,
        http_port,
    )
