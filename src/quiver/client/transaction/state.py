"""The states of a transaction, as its producer sees it."""

from enum import Enum

from quiver.model.errors import InvalidRequest


class TransactionState(Enum):
    NEW = "new"
    OPEN = "open"
    UNCERTAIN = "uncertain"
    """A commit was sent and got no response."""
    COMMITTED = "committed"
    ABORTED = "aborted"
    DETACHED = "detached"

    def check(self, *allowed: "TransactionState") -> None:
        """Raises InvalidRequest if this is another state."""
        if self not in allowed:
            wanted = " or ".join(state.value for state in allowed)
            raise InvalidRequest(problem=f"the transaction is {self.value}, not {wanted}")
