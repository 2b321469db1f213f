"""How a handler says that a message can never be processed."""


class Reject(Exception):
    """Raise it in a handler, or inside `with job`: the message is dead-lettered immediately, with this reason."""

    @property
    def reason(self) -> str:
        return str(self)
