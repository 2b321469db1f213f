"""A worker's part in transactions that another worker coordinates."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress

from quiver.model.errors import QuiverError
from quiver.model.transaction import GroupOffsetCommit
from quiver.system.key_locks import KeyLocks
from quiver.telemetry.failures import Failures
from quiver.telemetry.periodic_task import PeriodicTask
from quiver.transactions.events import Participant, ProducerOutcome
from quiver.transactions.owners.joined_frames import JoinedFrames
from quiver.transactions.owners.offset_checks import check_held_offsets, check_offsets
from quiver.transactions.owners.own_units import Marker, OwnUnits, is_strange
from quiver.transactions.owners.port import Finish, OpenInLog, Outcomes, Prepare, Question, TransactionCoordinator

logger = logging.getLogger(__name__)

_ASK_EVERY_SECONDS = 0.5
_NO_DECISION = 0


class TransactionOwner:
    """What is prepared waits for its outcome: the coordinator tells it, or is asked for it."""

    def __init__(self, units: OwnUnits, frames: JoinedFrames) -> None:
        self._units = units
        self.frames = frames
        self._coordinator: TransactionCoordinator
        self._locks = KeyLocks()
        """By decision: what the coordinator asks for is done one after another."""
        self._unknown: set[OpenInLog] = set()
        """Open in a log when this worker started, and not known whether they still are."""
        self._waited: set[int] = set()
        """Decisions that were prepared when this worker last looked."""
        self.task = PeriodicTask("outcomes of transactions", self._ask, every_seconds=_ASK_EVERY_SECONDS)

    def share_with(self, coordinator: TransactionCoordinator) -> None:
        """Called before `start`."""
        self._coordinator = self.frames.coordinator = coordinator

    def start(self, *, is_coordinator: bool) -> None:
        """Called when logs, groups and leases are open. What was prepared stays held until its outcome is known.

        The coordinator's own process ends what is open in its logs, and has something prepared only if it was one of
        more or fewer workers before."""
        self._waited = self._units.prepared()
        if not is_coordinator:
            self._unknown = set(self._units.open_in_logs())
        if self._waited or not is_coordinator:
            self.task.start()

    async def stop(self) -> None:
        await self.task.stop()
        await self.frames.stop()

    # what the coordinator asks for

    async def opened(self, term: int) -> list[OpenInLog]:
        """A new term begins, in which this worker has joined nothing yet."""
        found = {*self._units.open_in_logs(), *self.frames.known()}
        self.frames.learn(term)
        self._unknown.clear()
        return sorted(found)

    async def check_offsets(self, groups: Sequence[GroupOffsetCommit]) -> None:
        """Raises if they could not be committed now."""
        streams = self._units.streams
        async with streams.groups.locks.hold(*(group.group for group in groups)):
            await check_held_offsets(streams, groups)

    async def prepare(self, term: int, prepare: Prepare) -> None:
        """On return, frames so far are written, and offsets and acks are on disk, held until the outcome. After an
        error nothing is held."""
        self.frames.learn(term)
        async with self._locks.hold(prepare.decision):
            try:
                for each in prepare.producers:
                    await self.frames.complete((each.producer_id, each.epoch))
                await self._prepare_offsets(prepare)
                await self._units.queues.prepare_leases(prepare.decision, prepare.acks)
            except BaseException:
                with suppress(QuiverError, OSError):  # what could not be taken back asks for its outcome
                    await self._release(prepare)
                raise

    async def _prepare_offsets(self, prepare: Prepare) -> None:
        by_group: dict[str, list[GroupOffsetCommit]] = {}
        for each in prepare.offsets:
            by_group.setdefault(each.group, []).append(each)
        await check_offsets(self._units.streams, prepare.offsets)
        for name in sorted(by_group):
            await self._units.streams.prepared.prepare(prepare.decision, name, by_group[name])

    async def release(self, prepare: Prepare) -> None:
        """It was not decided: what is held is let go, and the transaction goes on."""
        async with self._locks.hold(prepare.decision):
            await self._release(prepare)

    async def _release(self, prepare: Prepare) -> None:
        for each in prepare.producers:
            self.frames.reopen((each.producer_id, each.epoch))
        await self._units.end_prepared(prepare.decision, commit=False)

    async def finish(self, finish: Finish) -> bool:
        """Whether all of it is done: markers written, offsets and acks on disk."""
        async with self._locks.hold(finish.decision):
            for each in finish.outcomes:
                await self.frames.end((each.producer_id, each.epoch))
            return all(await asyncio.gather(self._mark(finish), self._settle(finish)))

    async def _mark(self, finish: Finish) -> bool:
        markers: list[Marker] = [(outcome, log) for outcome in finish.outcomes for log in outcome.participants]
        marked = await self._units.put_markers(finish.decision, markers, commit=finish.commit)
        return not marked.left

    async def _settle(self, finish: Finish) -> bool:
        """What was prepared; and what was not, because this worker owns it only since the last start."""
        try:
            if finish.decision != _NO_DECISION:
                await self._units.end_prepared(finish.decision, commit=finish.commit)
            if finish.acks:
                await self._units.repeat_acks(finish.acks)
        except Exception as error:
            logger.warning("acks of transaction %d wait: %s", finish.decision, error, exc_info=is_strange(error))
            return False
        return all([await self._units.put_offsets(finish.decision, group) for group in finish.offsets])

    async def sync(self, participants: Sequence[Participant]) -> bool:
        return await self._units.sync(participants)

    # what it asks for

    async def _ask(self, failures: Failures) -> None:
        """Asks for what was prepared when it last looked, and is still."""
        prepared = self._units.prepared()
        late, self._waited = sorted(prepared & self._waited), prepared
        if not (late or self._unknown):
            return
        question = Question(late, sorted(self._unknown))
        try:
            outcomes = await self._coordinator.outcomes(question)
        except QuiverError as error:
            logger.info("the outcome of %d transactions is asked for later: %s", len(late), error)
            return
        with failures.of("the end of transactions"):
            await self._follow(question, outcomes)

    async def _follow(self, question: Question, outcomes: Outcomes) -> None:
        self.frames.learn(outcomes.term)
        for decision, commit in zip(question.decisions, outcomes.decisions, strict=True):
            if commit is not None:
                async with self._locks.hold(decision):
                    await self._units.end_prepared(decision, commit=commit)
        in_logs = set(self._units.open_in_logs())
        answers = [*zip(question.opened, outcomes.opened, strict=True)]
        for opened, commit in answers:
            if commit is None and opened in self._unknown:
                self._unknown.discard(opened)
                if opened in in_logs:  # otherwise it has ended meanwhile
                    self.frames.continued(opened)
        for opened, commit in answers:
            if commit is not None and await self._close(opened, commit):
                self._unknown.discard(opened)

    async def _close(self, opened: OpenInLog, commit: bool) -> bool:
        key = opened.producer_id, opened.epoch
        outcome = ProducerOutcome(*key, *key, [opened.participant])
        marked = await self._units.put_markers(_NO_DECISION, [(outcome, opened.participant)], commit=commit)
        return not marked.left
