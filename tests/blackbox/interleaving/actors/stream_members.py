"""Members of stream groups that join, read, commit and leave, so that partitions move all the time."""

import itertools
import random
from typing import Any

from blackbox.interleaving.history import Event
from blackbox.interleaving.scenario import SESSION, Group, World
from quiver.model.errors import QuiverError

_memberships = itertools.count()


def take_part(world: World, actor: str, group: Group) -> None:
    """One membership after the other."""
    chance = world.chance(actor)
    while not world.stopping.is_set():
        member = Member(world, actor, group, chance)
        try:
            with world.client() as q:
                member.read(q)
        except QuiverError as error:
            if not error.retryable and error.code not in ("member_fenced", "member_not_found", "closed"):
                raise
            world.recorder.note("disturbed", actor, group=group.name, code=error.code)
            world.rest()


class Member:
    """One membership: what it was assigned, given and commits is noted under a number of its own."""

    def __init__(self, world: World, actor: str, group: Group, chance: random.Random) -> None:
        self._world, self._actor, self._group, self._chance = world, actor, group, chance
        self._membership = f"{actor}/{next(_memberships)}"
        self._began_quietly = world.quiet.is_set()
        self._commits_by_hand = bool(group.copies_to) or (chance.random() < 0.5 and not self._began_quietly)
        self._last: dict[int, int] = {}

    def read(self, q: Any) -> None:
        left = self._chance.randint(20, 400)
        stream = q.stream(
            self._group.topic,
            group=self._group.name,
            session_timeout=SESSION,
            heartbeat="500ms",
            max_wait="200ms",
            auto_commit=False if self._commits_by_hand else "300ms",
            on_assign=lambda parts: self._note("assign", parts),
            on_revoke=lambda parts: self._note("revoke", parts),
            on_lost=lambda parts: self._note("lost", parts),
        )
        # Who commits by hand leaves when the load ends, and comes again as one who commits everything.
        ends = [self._world.stopping] if self._began_quietly else [self._world.stopping, self._world.quiet]
        with stream, self._world.ended_by(ends, stream.close):
            for message in stream:
                self._last[message.partition] = message.offset
                self._deliver(message)
                if self._group.copies_to:
                    self._copy(q, stream, message)
                elif self._commits_by_hand and self._chance.random() < 0.1:
                    self._commit(stream)
                left -= 1
                if left <= 0 and not self._world.quiet.is_set():
                    return

    def _deliver(self, message: Any) -> None:
        self._world.recorder.note(
            "deliver",
            self._actor,
            group=self._group.name,
            topic=message.topic,
            partition=message.partition,
            offset=message.offset,
            message=message.value.decode(),
            membership=self._membership,
        )

    def _commit(self, stream: Any) -> None:
        events = self._begin_commits()
        try:
            stream.commit()
        except QuiverError as error:
            for event in events:
                self._world.recorder.end(event, "unknown", code=error.code)
            if not error.retryable:
                raise
            return
        # A partition that moved away meanwhile was committed then, or not at all.
        owned = {partition for _, partition in stream.assignment}
        for event in events:
            self._world.recorder.end(event, "ok" if event.partition in owned else "unknown")

    def _copy(self, q: Any, stream: Any, message: Any) -> None:
        """The message's copy and the group's offset in one transaction."""
        name = f"{self._group.name}:{message.value.decode()}"
        transaction = self._world.recorder.begin("transaction", self._actor, group=self._group.name, messages=[name])
        commits = self._begin_commits()
        is_aborted = not self._world.quiet.is_set() and self._chance.random() < 0.1
        try:
            with q.transaction(f"{self._actor}-{self._membership}".replace("/", "-")) as tx:
                tx.publish(self._group.copies_to, name)
                tx.commit_offsets(stream)
                if is_aborted:
                    raise _ChangedMindError
        except _ChangedMindError:
            self._end([transaction, *commits], "refused", code="aborted")
            stream.rewind()
            self._note("rewind", stream.assignment)
        except QuiverError as error:
            self._end([transaction, *commits], "unknown", code=error.code)
            if not error.retryable and error.code != "transaction_aborted":
                raise
            stream.rewind()
            self._note("rewind", stream.assignment)
        else:
            self._end([transaction, *commits], "ok")

    def _begin_commits(self) -> list[Event]:
        return [
            self._world.recorder.begin(
                "commit",
                self._actor,
                group=self._group.name,
                topic=self._group.topic,
                partition=partition,
                offset=offset + 1,
                membership=self._membership,
            )
            for partition, offset in self._last.items()
        ]

    def _end(self, events: list[Event], outcome: Any, **details: Any) -> None:
        for event in events:
            self._world.recorder.end(event, outcome, **details)

    def _note(self, what: str, parts: list[tuple[str, int]]) -> None:
        for topic, partition in parts:
            self._last.pop(partition, None)
            self._world.recorder.note(
                what,
                self._actor,
                group=self._group.name,
                topic=topic,
                partition=partition,
                membership=self._membership,
            )


class _ChangedMindError(Exception):
    """Aborts a transaction."""
