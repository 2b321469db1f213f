"""A model of etcd: keys, leases and watches behind a network. Requests may take effect after their caller gave up."""

import random
from collections.abc import Callable
from typing import Any

from quiver.coordination.events import LeaseEnded, LeaseGranted, Proposed
from quiver.coordination.port import ChangeBatch, Operation
from quiver.coordination.state import CoordinationState
from quiver.model.errors import CoordinationUnavailable
from quiver.testing.simulation.system.network import SimulatedNetwork
from quiver.testing.simulation.world import World

HOST = "etcd"
_LEASE_LOOK_SECONDS = 0.5
"""How late it notices that a lease has ended."""
_LATEST_SECONDS = 3.0
_FORGOTTEN = 0.01
"""The share of changes after which a watch gets all keys: etcd has forgotten what it missed."""

Respond = Callable[[Any], None]


class EtcdModel:
    def __init__(self, world: World, network: SimulatedNetwork) -> None:
        self.state = CoordinationState()
        self._world, self._network = world, network
        self._chance: random.Random = world.seeded("etcd")
        self._away_until = 0.0
        self._lease_ends: dict[int, float] = {}
        self._watches: list[ModelWatch] = []

    # what breaks

    @property
    def is_away(self) -> bool:
        """It has no leader: nothing is read or changed, and no lease ends."""
        return self._world.now < self._away_until

    def lose_leader(self, seconds: float) -> None:
        """The next leader gives all leases their whole time again."""
        self._away_until = max(self._away_until, self._world.now + seconds)
        self._world.at(self._away_until, self._begin_term)

    def _begin_term(self) -> None:
        if not self.is_away:
            for lease_id in self._lease_ends:
                self._extend(lease_id)

    # requests

    def request(self, process: str, apply: Callable[[], Any], respond: Respond) -> None:
        """Nothing comes back where the request or its response is lost."""
        self._world.later(self._network.delay_seconds(process, HOST), self._arrive, process, apply, respond)

    def _arrive(self, process: str, apply: Callable[[], Any], respond: Respond) -> None:
        if self.is_away:
            fate = self._chance.random()
            if fate < 0.3:  # it waits for a leader, whoever still waits for the response
                late = self._away_until + self._chance.random() * _LATEST_SECONDS
                self._world.at(late, self._arrive, process, apply, respond)
            elif fate < 0.6:
                self._send(process, respond, CoordinationUnavailable(problem="no leader"))
        else:
            self._send(process, respond, apply())

    def _send(self, process: str, respond: Respond, result: Any) -> None:
        self._world.later(self._network.delay_seconds(HOST, process), respond, result)

    def write(self, operation: Operation) -> None:
        """By an operator."""
        self.state.apply(Proposed(0, [], [operation]))
        self.changed()

    # leases

    def grant(self, ttl_ms: int) -> int:
        lease_id = self.state.apply(LeaseGranted(0, ttl_ms)).revision
        self._extend(lease_id)
        return lease_id

    def keep_alive(self, lease_id: int) -> bool:
        if lease_id not in self._lease_ends:
            return False
        self._extend(lease_id)
        return True

    def revoke(self, lease_id: int) -> None:
        if self._lease_ends.pop(lease_id, None) is not None:
            self.state.apply(LeaseEnded(0, lease_id))
            self.changed()

    def _extend(self, lease_id: int) -> None:
        end = self._world.now + self.state.leases[lease_id].ttl_ms / 1000
        self._lease_ends[lease_id] = end
        self._world.at(end + self._chance.random() * _LEASE_LOOK_SECONDS, self._look_at, lease_id)

    def _look_at(self, lease_id: int) -> None:
        if self._lease_ends.get(lease_id, self._world.now) < self._world.now and not self.is_away:
            self._world.note("lease ended", lease_id)
            self.revoke(lease_id)

    # watches

    def changed(self) -> None:
        for watch in self._watches:
            self._push(watch)

    def watch(self, watch: "ModelWatch") -> None:
        """Begins it; the first batch is on its way."""
        self._watches.append(watch)
        self._push(watch)

    def end_watch(self, watch: "ModelWatch") -> None:
        if watch in self._watches:
            self._watches.remove(watch)

    def end_of(self, process: str) -> None:
        self._watches = [watch for watch in self._watches if watch.process != process]

    def _push(self, watch: "ModelWatch") -> None:
        is_first = watch.is_new and not watch.sent_revision
        after = 0 if self._chance.random() < _FORGOTTEN else watch.sent_revision
        while (batch := self.state.changes(watch.prefix, after)) is not None:
            if batch.revision == watch.sent_revision and not is_first:
                return
            watch.is_new = is_first = False
            after = watch.sent_revision = batch.revision
            watch.arrives_at = max(
                watch.arrives_at, self._world.now + self._network.delay_seconds(HOST, watch.process)
            )
            self._world.at(watch.arrives_at, watch.deliver, batch)


class ModelWatch:
    """A place in the changes of keys. `deliver` gets the batches in order, in the process that watches."""

    def __init__(
        self, process: str, prefix: str, after_revision: int, deliver: Callable[[ChangeBatch], None]
    ) -> None:
        self.process, self.prefix, self.deliver = process, prefix, deliver
        self.sent_revision = after_revision
        self.arrives_at = 0.0
        self.is_new = True
