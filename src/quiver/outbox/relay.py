"""Carries out the moves of an outbox: in order for each target, each until it succeeds."""

import asyncio
import contextlib
import heapq
import logging
from collections.abc import Iterable
from typing import Protocol

from quiver.model.errors import QuiverError
from quiver.outbox.outbox import Move, Outbox, Target
from quiver.system.backoff import Backoff

logger = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 10.0


class MoveSteps(Protocol):
    """What a move of one source consists of."""

    async def carry(self, move: Move) -> None:
        """Appends the messages to the target. May be called again for the same move, after a failure or a restart."""

    async def note_done(self, move: Move) -> None:
        """Writes to the source's journal that the move is done; need not wait for the disk."""


class OutboxRelay:
    """One task per target that has something to do. Belongs to the owner of the outbox and its event loop.

    The owner submits a move once it is in its journal (`submit`; at start-up all open ones), and calls `taken_back`
    when it takes one back.
    """

    def __init__(self, name: str, outbox: Outbox, steps: MoveSteps) -> None:
        self._name = name
        self._outbox = outbox
        self._steps = steps
        self._queues: dict[Target, list[tuple[int, Move]]] = {}
        self._tasks: dict[Target, asyncio.Task[None]] = {}
        self._submitted: set[int] = set()
        self._ended: dict[int, asyncio.Future[None]] = {}
        """Futures of moves that somebody waits for; cancelled when they will not be done here."""
        self._news = asyncio.Event()
        self._closing = False

    def submit(self, moves: Iterable[Move]) -> None:
        """Takes moves that are on disk at the source. Moves to one target are carried out in the order in which they
        began."""
        for move in moves:
            if self._closing or move.id in self._submitted:
                continue
            self._submitted.add(move.id)
            heapq.heappush(self._queues.setdefault(move.target, []), (move.id, move))
            if move.target not in self._tasks:
                task = asyncio.get_running_loop().create_task(self._run(move.target))
                self._tasks[move.target] = task
        self._news.set()

    def taken_back(self) -> None:
        """A move was taken out of the outbox: nobody waits for it any longer."""
        self._news.set()
        for move_id in [move_id for move_id in self._ended if move_id not in self._outbox.open]:
            self._ended.pop(move_id).cancel()

    async def finished(self, moves: Iterable[Move], *, within_seconds: float) -> bool:
        """Waits until the moves are done; False if that takes too long, one is taken back, or the relay closes."""
        loop = asyncio.get_running_loop()
        waiting = [
            self._ended.setdefault(move.id, loop.create_future()) for move in moves if move.id in self._outbox.open
        ]
        if not waiting:
            return True
        if self._closing:
            return False
        done, late = await asyncio.wait(waiting, timeout=within_seconds)
        return not late and not any(future.cancelled() for future in done)

    async def close(self) -> None:
        """Stops immediately. Moves that are not done stay open and are carried out after the next start."""
        self._closing = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for future in self._ended.values():
            future.cancel()
        self._ended.clear()

    async def _run(self, target: Target) -> None:
        queue = self._queues[target]
        try:
            while queue:
                await self._until_first(target, queue)
                _, move = queue[0]
                await self._carry_out(move)
                heapq.heappop(queue)
        finally:
            del self._tasks[target], self._queues[target]

    async def _until_first(self, target: Target, queue: list[tuple[int, Move]]) -> None:
        """Waits while an earlier move to the same target is not on disk yet."""
        while any(
            move.target == target and id not in self._submitted
            for id, move in self._outbox.open.items()
            if id < queue[0][0]
        ):
            self._news.clear()
            await self._news.wait()

    async def _carry_out(self, move: Move) -> None:
        backoff = Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        while True:
            try:
                await self._steps.carry(move)
                break
            except (QuiverError, OSError) as error:
                pause = backoff.next_seconds()
                logger.warning("move %d of %s is tried again in %.2f s: %s", move.id, self._name, pause, error)
            except Exception:
                pause = backoff.next_seconds()
                logger.exception("move %d of %s is tried again in %.2f s", move.id, self._name, pause)
            await asyncio.sleep(pause)
        self._outbox.done(move.id)
        self._submitted.discard(move.id)
        with contextlib.suppress(KeyError):
            self._ended.pop(move.id).set_result(None)
        try:
            await self._steps.note_done(move)
        except (QuiverError, OSError) as error:
            logger.warning("the end of move %d of %s was not noted: %s", move.id, self._name, error)
        except Exception:  # the moves after it must still be carried out
            logger.exception("the end of move %d of %s was not noted", move.id, self._name)
