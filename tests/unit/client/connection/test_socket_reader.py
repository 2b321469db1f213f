"""Who receives: the thread that waits, another one that waits, or the reader's own. Every byte is an answer."""

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from quiver.client._backend_sync import Signal, Waiter
from quiver.client.connection.socket_reader import SocketReader

_SECONDS = 20.0


class Answers:
    """Requests are bytes; an answer is the same byte. A packet may be announced to be large."""

    def __init__(self) -> None:
        self.waiting: dict[int, Callable[[], None]] = {}
        self.received_by: list[int] = []
        self.error: BaseException | None = None
        self.ended = threading.Event()
        self.buffer = bytearray(1024)
        self.reader: SocketReader

    @property
    def has_requests(self) -> bool:
        return bool(self.waiting)

    def get_buffer(self) -> memoryview:
        return memoryview(self.buffer)

    def received(self, count: int) -> None:
        self.received_by.append(threading.get_ident())
        if count == 0:
            raise ConnectionError("closed")
        answers, self.buffer = bytes(self.buffer[:count]), bytearray(1024)
        for answer in answers:
            self.waiting.pop(answer)()

    def receiving_failed(self, error: BaseException) -> None:
        self.error = error
        self.reader.end()
        self.ended.set()

    def ask(self, request: int) -> Waiter[int]:
        waiter: Waiter[int] = Waiter()
        self.waiting[request] = lambda: waiter.set(request)
        return waiter


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def broker(answers: Answers) -> Iterator[socket.socket]:
    """The other end. The reader's own thread is not started."""
    ours, theirs = socket.socketpair()
    answers.reader = SocketReader(ours, answers, "test-reader")
    yield theirs
    answers.reader.end()
    if ours.fileno() >= 0:
        ours.shutdown(socket.SHUT_RDWR)
    answers.reader.join(_SECONDS)
    answers.reader.close()
    theirs.close()


def _in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def _until(is_reached: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(20_000):
        if is_reached():
            return
        pause.wait(0.001)
    raise AssertionError("it does not happen")


def test_whoever_waits_receives_its_answer(answers: Answers, broker: socket.socket) -> None:
    waiter = answers.ask(7)
    broker.send(b"\x07")
    assert answers.reader.wait(waiter, _SECONDS) == 7
    assert answers.received_by == [threading.get_ident()]


def test_an_answer_that_is_there_is_not_waited_for(answers: Answers, broker: socket.socket) -> None:
    waiter = answers.ask(7)
    waiter.set(7)
    assert answers.reader.wait(waiter, _SECONDS) == 7
    assert not answers.received_by


def test_whoever_receives_takes_in_the_answers_of_others(answers: Answers, broker: socket.socket) -> None:
    first, second = answers.ask(1), answers.ask(2)
    got: list[int | None] = []
    thread = _in_thread(lambda: got.append(answers.reader.wait(first, _SECONDS)))
    _until(lambda: bool(answers.reader._receiver))
    other = _in_thread(lambda: got.append(answers.reader.wait(second, _SECONDS)))
    broker.send(b"\x02")
    other.join(_SECONDS)
    assert got == [2]
    broker.send(b"\x01")
    thread.join(_SECONDS)
    assert got == [2, 1]
    assert set(answers.received_by) == {thread.ident}


def test_answers_that_are_left_are_received_by_the_readers_own_thread(
    answers: Answers, broker: socket.socket
) -> None:
    answers.reader.start()
    first, second = answers.ask(1), answers.ask(2)
    got: list[int | None] = []
    waiting = [_in_thread(lambda w=w: got.append(answers.reader.wait(w, _SECONDS))) for w in (first, second)]  # type: ignore[misc]
    broker.send(b"\x01")
    _until(lambda: 1 in got)
    broker.send(b"\x02")
    for thread in waiting:
        thread.join(_SECONDS)
    assert sorted(filter(None, got)) == [1, 2]


def test_what_nobody_waits_for_is_received(answers: Answers, broker: socket.socket) -> None:
    done = threading.Event()
    answers.reader.start()
    for request in range(1, 20):
        if request % 2:  # from here on the thread leaves receiving to those who wait
            waiter = answers.ask(request)
            broker.send(bytes([request]))
            assert answers.reader.wait(waiter, _SECONDS) == request
        else:
            done.clear()
            answers.waiting[request] = done.set
            broker.send(bytes([request]))
            answers.reader.expect()
            assert done.wait(_SECONDS)


def test_what_is_announced_and_not_waited_for_is_received_in_the_end(answers: Answers, broker: socket.socket) -> None:
    answers.reader.start()
    waiter = answers.ask(1)
    broker.send(b"\x01")
    answers.reader.wait(waiter, _SECONDS)
    done = threading.Event()
    answers.waiting[2] = done.set
    broker.send(b"\x02")
    assert done.wait(_SECONDS)


def test_a_wait_ends_in_time_and_its_answer_is_still_received(answers: Answers, broker: socket.socket) -> None:
    waiter = answers.ask(1)
    with pytest.raises(TimeoutError):
        answers.reader.wait(waiter, 0.01)
    answers.reader.start()
    broker.send(b"\x01")
    assert waiter.wait(_SECONDS) == 1


def test_another_thread_ends_a_wait(answers: Answers, broker: socket.socket) -> None:
    signal = Signal()
    thread = _in_thread(lambda: answers.reader.wait(signal, None))
    _until(lambda: bool(answers.reader._receiver))
    signal.set()
    thread.join(_SECONDS)
    assert not thread.is_alive()
    assert not answers.received_by


def test_the_end_of_an_idle_connection_is_noticed(answers: Answers, broker: socket.socket) -> None:
    answers.reader.start()
    waiter = answers.ask(1)
    waiting = _in_thread(lambda: answers.reader.wait(waiter, _SECONDS))
    _until(lambda: answers.reader._is_left_to_callers)  # before the answer: otherwise the thread goes on receiving
    broker.send(b"\x01")
    waiting.join(_SECONDS)
    _until(lambda: not answers.reader._receiver)
    broker.close()
    assert answers.ended.wait(_SECONDS)
    answers.reader.join(_SECONDS)


def test_answers_before_the_end_are_received(answers: Answers, broker: socket.socket) -> None:
    answers.reader.start()
    first, second = answers.ask(1), answers.ask(2)
    broker.send(b"\x01\x02")
    broker.close()
    assert answers.reader.wait(first, _SECONDS) == 1
    assert answers.reader.wait(second, _SECONDS) == 2
    assert answers.ended.wait(_SECONDS)


def test_a_large_packet_is_left_to_the_readers_own_thread(answers: Answers, broker: socket.socket) -> None:
    waiter = answers.ask(3)
    answers.buffer = bytearray(100_000)
    got: list[int | None] = []
    thread = _in_thread(lambda: got.append(answers.reader.wait(waiter, _SECONDS)))
    _until(lambda: not answers.reader._receiver and waiter.on_set is None)
    answers.reader.start()
    answers.waiting |= {0: lambda: None}
    broker.send(b"\x03\x00")
    broker.shutdown(socket.SHUT_WR)  # ends what is short of the announced length
    thread.join(_SECONDS)
    assert got == [3]
    assert thread.ident not in answers.received_by


def test_an_interrupt_while_receiving_ends_the_connection(answers: Answers, broker: socket.socket) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    answers.waiting[1] = interrupted
    broker.send(b"\x01")
    with pytest.raises(KeyboardInterrupt):
        answers.reader.wait(Signal(), _SECONDS)
    assert isinstance(answers.error, KeyboardInterrupt)
    assert not answers.reader._receiver


def test_a_thread_that_could_not_give_up_receiving_does_it_next_time(answers: Answers, broker: socket.socket) -> None:
    answers.reader._receiver[0] = threading.get_ident()  # an interrupt came just then
    waiter = answers.ask(1)
    broker.send(b"\x01")
    assert answers.reader.wait(waiter, _SECONDS) == 1
    assert not answers.reader._receiver


def test_a_callback_that_waits_does_not_receive(answers: Answers, broker: socket.socket) -> None:
    outcome: list[bool] = []

    def callback() -> None:
        with pytest.raises(TimeoutError):
            answers.reader.wait(answers.ask(9), 0.01)
        outcome.append(True)
        del answers.waiting[9]
        signal.set()

    signal = Signal()
    answers.waiting[1] = callback
    broker.send(b"\x01")
    answers.reader.wait(signal, _SECONDS)
    assert outcome == [True]
    assert not answers.reader._receiver


def test_closing_waits_for_nobody_and_leaves_nothing_open(answers: Answers, broker: socket.socket) -> None:
    answers.reader.start()
    waiter = answers.ask(1)
    failed: list[BaseException] = []

    def work() -> None:
        try:
            answers.reader.wait(waiter, _SECONDS)
        except BaseException as error:
            failed.append(error)

    thread = _in_thread(work)
    _until(lambda: bool(answers.reader._receiver))
    sock = answers.reader._socket
    sock.shutdown(socket.SHUT_RDWR)
    assert answers.ended.wait(_SECONDS)
    answers.waiting.pop(1)()
    answers.reader.join(_SECONDS)
    answers.reader.close()
    thread.join(_SECONDS)
    _until(lambda: sock.fileno() < 0)
    assert not failed
