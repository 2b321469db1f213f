"""Messages are appended without a lock while another thread may seal the chunk.

Which moments a thread can be interrupted at differs between versions of Python, so the unlucky ones are made here:
a list that has the chunk sealed by another thread right before, or right after, a message is appended to it.
"""

import threading
from typing import Any

import pytest

import quiver
from unit.client.fake_native_broker import FakeBroker


class SealingList(list):
    """Has the chunk sealed once, by another thread, around the next append."""

    def __init__(self, values: list[Any], out: Any, chunk: Any, moment: str) -> None:
        super().__init__(values)
        self._out, self._chunk, self._moment = out, chunk, moment

    def append(self, value: Any) -> None:
        moment, self._moment = self._moment, "never"
        if moment == "before":
            self._seal()
        super().append(value)
        if moment == "after":
            self._seal()

    def _seal(self) -> None:
        def seal() -> None:
            chunks = self._out._chunks
            with chunks._mutex:
                chunks._seal(self._chunk)

        thread = threading.Thread(target=seal)
        thread.start()
        thread.join()


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("keyed", [False, True])
def test_a_chunk_is_sealed_while_a_message_is_appended(moment, keyed):
    with FakeBroker(single=1) as broker, quiver.connect(broker.address) as q:
        with q.producer("single", linger="1h") as out:
            futures = [out.send(b"%d" % n, b"k" if keyed else None) for n in range(3)]
            chunk = out._own.chunk
            chunk.values = SealingList(chunk.values, out, chunk, moment)
            futures += [out.send(b"%d" % n, b"k" if keyed else None) for n in range(3, 6)]
            assert chunk.is_sealed
            assert futures[3].outcome is (chunk.outcome if moment == "after" else out._own.chunk.outcome)
        assert broker.topics["single"].values() == [b"%d" % n for n in range(6)]
        assert [future.result(10).offset for future in futures] == list(range(6))


def test_a_chunk_is_sealed_and_sent_between_the_look_at_the_limit_and_the_append():
    with FakeBroker(single=1) as broker, quiver.connect(broker.address) as q:
        with q.producer("single", linger="1h") as out:
            futures = [out.send(b"0", b"k")]
            chunk = out._own.chunk

            class SendingLimit(int):
                """Has the chunk sealed and sent by another thread right after it was compared with."""

                def __gt__(self, row: int) -> bool:
                    thread = threading.Thread(target=out.flush)
                    thread.start()
                    thread.join()
                    return True

            chunk.keyed_until = SendingLimit(chunk.keyed_until)
            futures.append(out.send(b"1", b"k"))
        assert broker.topics["single"].values() == [b"0", b"1"]
        assert [future.result(10).offset for future in futures] == [0, 1]


@pytest.mark.parametrize("keyed", [False, True])
def test_a_window_is_closed_while_a_message_is_appended(keyed):
    with FakeBroker(single=1) as broker, quiver.connect(broker.address) as q:
        with q.producer("single", linger="1h") as out:
            out.send(b"0", b"k" if keyed else None)
            chunk = out._own.chunk

            class ClosingList(list):
                def append(self, value: Any) -> None:
                    chunk.close_window()
                    super().append(value)

            chunk.values = ClosingList(chunk.values)
            assert out.send(b"1", b"k" if keyed else None).row == 1
        assert broker.topics["single"].values() == [b"0", b"1"]
