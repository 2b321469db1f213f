"""A bank: each transfer is a transaction that publishes what one account loses and another gets."""

import itertools
from collections.abc import Iterator

from blackbox.interleaving.actors.publishers import begin_publish
from blackbox.interleaving.checks.evidence import Evidence, Violation
from blackbox.interleaving.scenario import COPIES, PARTITIONS, World
from quiver.model.errors import QuiverError

_PREFIX = "bank"
_ACCOUNTS = 20


class _ChangedMindError(Exception):
    """Aborts a transfer."""


def transfer(world: World, actor: str) -> None:
    """Between accounts of different partitions, which different nodes may lead."""
    chance, numbers = world.chance(actor), itertools.count()
    with world.client() as q:
        while not world.is_over(chance, 0.05, 0.4):
            number, amount = next(numbers), chance.randint(1, 100)
            drafts = [
                {
                    "value": f"{_PREFIX}.{actor}.{number}.{side}:{change}",
                    "key": f"account-{chance.randrange(_ACCOUNTS)}",
                    "partition": (number + side) % PARTITIONS[COPIES],
                }
                for side, change in enumerate((-amount, amount))
            ]
            events = [world.recorder.begin("transaction", actor, messages=[draft["value"] for draft in drafts])]
            events += [begin_publish(world, actor, COPIES, draft, in_transaction=True) for draft in drafts]
            outcome, code = "ok", {}
            try:
                with q.transaction(actor, timeout="20s") as tx:
                    for draft in drafts:
                        tx.publish(COPIES, **draft)
                    if chance.random() < 0.2:
                        raise _ChangedMindError
            except _ChangedMindError:
                outcome = "refused"
            except QuiverError as error:
                if not error.retryable and error.code not in ("transaction_aborted", "producer_fenced"):
                    raise
                outcome, code = "unknown", {"code": error.code}
            for event in events:
                world.recorder.end(event, outcome, **code)


def check_bank(evidence: Evidence) -> Iterator[Violation]:
    """No money is made or lost."""
    amounts = [int(one.value.rpartition(":")[2]) for one in evidence.final.stored if one.value.startswith(_PREFIX)]
    if sum(amounts):
        yield Violation("", f"{len(amounts)} changes of accounts add up to {sum(amounts)}")
