"""Backoff and the end of retries, the same for groups with and without order."""

import pytest

from quiver.model.queue import QueueSettings
from quiver.queues.state.retry_policy import RetryPolicy

SETTINGS = QueueSettings(backoff_ms=1_000, backoff_max_ms=60_000, max_attempts=4)


@pytest.mark.parametrize(
    ("attempts", "pause_ms"), [(0, 1_000), (1, 1_000), (2, 2_000), (3, 4_000), (7, 60_000), (10_000, 60_000)]
)
def test_the_backoff_doubles_up_to_its_limit(attempts: int, pause_ms: int) -> None:
    assert RetryPolicy(SETTINGS, now_ms=5).due_ms(attempts) == 5 + pause_ms


def test_jitter_shortens_the_backoff_and_is_rounded() -> None:
    assert RetryPolicy(SETTINGS, now_ms=0, jitter=0.5).due_ms(2) == 1_000
    odd = QueueSettings(backoff_ms=3)
    assert RetryPolicy(odd, now_ms=0, jitter=0.9).due_ms(1) == 3


def test_a_delay_that_was_asked_for_is_kept_exactly() -> None:
    policy = RetryPolicy(SETTINGS, now_ms=10, jitter=0.5, delay_ms=0)
    assert policy.due_ms(3) == 10


def test_the_last_attempt_is_the_last_unless_it_does_not_count() -> None:
    policy = RetryPolicy(SETTINGS, now_ms=0)
    assert [policy.is_last(attempts) for attempts in (3, 4, 5)] == [False, True, True]
    assert not policy._replace(is_counted=False).is_last(4)
