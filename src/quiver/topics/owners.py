"""The other processes that own partitions of a topic: what whoever changes topics has to wait for."""

from typing import Protocol

from quiver.model.topic import Topic


class OtherOwners(Protocol):
    exist: bool
    """They use a topic as soon as their view has it."""

    async def prepare(self, topic: Topic) -> None:
        """Returns when all of them have opened their partitions of a topic as it is going to be
        (`TopicAdmin.prepare`)."""

    async def take_back(self, topic: Topic) -> None:
        """The topic stays as it is: what was opened by `prepare` is closed (`TopicAdmin.take_back_prepared`)."""

    async def opened(self, topic: Topic) -> None:
        """Returns when all of them have opened their partitions of a topic that is new or has changed
        (`TopicFollower.opened`, once their views are as new as this process's); raises why one of them cannot."""

    async def ended(self, topic: Topic) -> None:
        """Returns when none of them works on a deleted topic any more (`TopicRemovals.ended`)."""


class NoOthers:
    """This process owns everything."""

    exist = False

    async def prepare(self, topic: Topic) -> None:
        pass

    async def take_back(self, topic: Topic) -> None:
        pass

    async def opened(self, topic: Topic) -> None:
        pass

    async def ended(self, topic: Topic) -> None:
        pass
