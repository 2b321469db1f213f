import asyncio
import time

from quiver.telemetry.loop_lag import LoopLag


def hold_the_loop(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


async def test_a_loop_that_was_held_is_seen():
    lag = LoopLag()
    lag.start()
    lag.start()
    hold_the_loop(0.3)
    async with asyncio.timeout(10):
        while lag.worst_ms == 0.0:
            await asyncio.sleep(0)
    lag.stop()
    assert lag.worst_ms >= 150


async def test_nothing_is_measured_before_the_start_and_after_the_stop():
    lag = LoopLag()
    lag.stop()
    assert lag.worst_ms == 0.0
