"""The connection over which each member gave its last sign of life, for members that have one."""


class MemberConnections:
    """In memory only. Whoever notes a member forgets it when the connection ends."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], object] = {}

    def note(self, group: str, member_id: str, connection: object) -> None:
        self._last[group, member_id] = connection

    def forget(self, group: str, member_id: str, connection: object) -> bool:
        """Whether it was the last connection of the member: none has taken its place since."""
        if self._last.get((group, member_id)) is not connection:
            return False
        del self._last[group, member_id]
        return True
