"""When a stream waits for more messages."""

from quiver_spark.progress.batch_delay import BatchDelay


class TriggerClock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def now_ms(self) -> int:
        return int(self.seconds * 1000)


def test_a_batch_waits_for_enough_rows_but_not_too_long() -> None:
    clock = TriggerClock()
    delay = BatchDelay(10, 60.0, clock)
    assert not delay.waits(0)
    assert not delay.waits(3)
    assert delay.waits(9)
    assert not delay.waits(10)
    assert delay.waits(9)
    clock.seconds = 59.0
    assert delay.waits(9)
    clock.seconds = 60.0
    assert not delay.waits(9)
    assert delay.waits(9)
