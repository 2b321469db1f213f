"""How a handler says that a message can never be processed."""


class Reject(Exception):
    """Raised by a handler, or inside `with job`: the message goes to the dead letters at once, with this reason."""

    @property
    def reason(self) -> str:
        return str(self)
