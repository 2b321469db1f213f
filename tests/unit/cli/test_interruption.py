"""Ctrl-C during bulk work."""

import signal

import pytest

from quiver.cli.interruption import Interruption


def test_the_first_ctrl_c_waits_for_the_step_and_the_second_does_not() -> None:
    interruption = Interruption()
    with interruption.watched():
        signal.raise_signal(signal.SIGINT)
        assert interruption.requested
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_a_wait_ends_at_once_also_when_ctrl_c_came_before_it() -> None:
    interruption = Interruption()
    with interruption.watched():
        with pytest.raises(KeyboardInterrupt), interruption.waiting():
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt), interruption.waiting():
            pytest.fail("waited after Ctrl-C")


def test_the_signal_belongs_to_others_again_afterwards() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interruption().watched():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before
