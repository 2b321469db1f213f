"""What the source of a move asks of the owner of its target."""

from quiver.links.request import PeerRequest
from quiver.outbox.outbox import Target
from quiver.outbox.targets import MovedFrame


class AppendMoved(PeerRequest[None], frozen=True):
    """A repeat is recognised by the mover and its sequence."""

    capability, method = "outbox", "append"
    target: Target
    frame: MovedFrame
