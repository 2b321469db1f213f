import asyncio
import time

from quiver.telemetry.loop_lag import LoopLag


async def test_a_loop_that_was_held_is_seen():
    lag = LoopLag()
    lag.start()
    lag.start()
    await asyncio.sleep(0.01)
    time.sleep(0.3)
    await asyncio.sleep(0.01)
    lag.stop()
    assert lag.worst_ms >= 150


async def test_nothing_is_measured_before_the_start_and_after_the_stop():
    lag = LoopLag()
    lag.stop()
    assert lag.worst_ms == 0.0
