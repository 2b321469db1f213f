"""Hello and Welcome: what both sides can read."""

from quiver.gateways.native.context import WorkerPlace
from quiver.model.errors import InvalidRequest, UnsupportedVersion
from quiver.model.limits import Limits
from quiver.protocol.messages import CODECS, ENCODINGS, PROTOCOL_VERSION, Hello, Welcome

SOFTWARE = "quiver"


class OtherWorkerWanted(Exception):
    """The connection is for another worker."""

    def __init__(self, worker: int) -> None:
        super().__init__(worker)
        self.worker = worker


def check_worker(hello: Hello, place: WorkerPlace) -> None:
    """OtherWorkerWanted when the client wants another worker; InvalidRequest when there is no such worker."""
    if hello.worker in (-1, place.worker):
        return
    if not 0 <= hello.worker < place.workers:
        raise InvalidRequest(problem=f"there is no worker {hello.worker}; the last one is {place.workers - 1}")
    raise OtherWorkerWanted(hello.worker)


def welcome(hello: Hello, node_id: str, limits: Limits, http_port: int, place: WorkerPlace) -> Welcome:
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
        place.worker,
        place.workers,
    )
