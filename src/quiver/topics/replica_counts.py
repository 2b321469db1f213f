"""How many replicas a broker keeps of everything, and what topics can ask for."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from quiver.model.errors import InvalidSetting
from quiver.model.topic import TopicConfig


class ReplicaCounts(NamedTuple):
    factor: int = 1
    """Replicas of every topic."""
    min_isr: int = 1
    """The fewest that may be in sync when a message is taken: leaders are elected by it, so no topic can do with
    fewer."""

    def check(self, settings: Mapping[str, Any], config: TopicConfig) -> None:
        """Refuses settings of a user that a topic cannot have; `config` is with them."""
        factor, min_isr = config.replication_factor, config.min_isr
        if "replication_factor" in settings and factor != self.factor:
            raise InvalidSetting(
                setting="replication_factor",
                problem=f"is {factor}, and {self._all_topics}: leave it out, or say {self.factor}",
            )
        if "min_isr" not in settings or self.min_isr <= min_isr <= self.factor:
            return
        if self.factor == 1:
            problem = f"is {min_isr}, and {self._all_topics}: leave it out, or start a cluster (docs/cluster.md)"
        elif min_isr > self.factor:
            problem = f"is {min_isr}, and {self._all_topics}: it can be from {self.min_isr} to {self.factor}"
        else:
            problem = (
                f"is {min_isr}, and the min_isr of this cluster is {self.min_isr}, by which it elects leaders: a"
                f" topic can ask for more, up to {self.factor}, and not for less"
            )
        raise InvalidSetting(setting="min_isr", problem=problem)

    @property
    def _all_topics(self) -> str:
        if self.factor == 1:
            return "a broker that is not in a cluster has one replica of everything"
        return f"all topics of this cluster have {self.factor} replicas (replication_factor of quiver serve)"

    def filled(self, config: TopicConfig) -> TopicConfig:
        """With what holds here in the place of what was left out, or was set elsewhere."""
        min_isr = min(max(config.min_isr, self.min_isr), self.factor)
        if (config.replication_factor, config.min_isr) == (self.factor, min_isr):
            return config
        return msgspec.structs.replace(config, replication_factor=self.factor, min_isr=min_isr)


ONE_REPLICA = ReplicaCounts()
