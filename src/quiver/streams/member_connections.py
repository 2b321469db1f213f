"""The connection of each member's last heartbeat, for members that have one."""


class MemberConnections:
    """In memory only. The gateway notes a member, and forgets it when the connection ends."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], object] = {}

    def note(self, group: str, member_id: str, connection: object) -> None:
        self._last[group, member_id] = connection

    def forget(self, group: str, member_id: str, connection: object) -> bool:
        """Whether it was the member's current connection: no other one has replaced it."""
        if self._last.get((group, member_id)) is not connection:
            return False
        del self._last[group, member_id]
        return True
