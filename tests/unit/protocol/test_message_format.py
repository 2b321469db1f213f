"""The bytes of version 1 messages: they may get new fields at the end, and nothing else may change."""

import subprocess
import sys
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.model.dead_letter import DeadLetter, DeadLetterCursor, DeadLetterFilter, Original
from quiver.model.errors import CATALOGUE, ProtocolError, QuiverError, TopicNotFound
from quiver.model.position import EARLIEST, LATEST, Position
from quiver.model.priority import Priority
from quiver.model.schedule import DelayedMessage, ScheduleChanges
from quiver.model.settlement import ACK, NACK, SettleRequest
from quiver.model.trace.life import GroupStanding, LifeEvent, MessageLife, Place
from quiver.model.trace.span import Span, Trace, TraceFilter, TraceStats
from quiver.protocol import compaction_messages as c
from quiver.protocol import dead_letter_messages as d
from quiver.protocol import delay_messages as y
from quiver.protocol import group_messages as g
from quiver.protocol import life_messages as f
from quiver.protocol import messages as m
from quiver.protocol import queue_messages as q
from quiver.protocol import schedule_messages as s
from quiver.protocol import search_messages as w
from quiver.protocol import transaction_messages as t
from quiver.protocol.failure import error_of, failure_of
from quiver.protocol.packet import PREFIX_BYTES, decode_request, decode_response, encode_packet

REQUESTS: list[tuple[m.Message, str]] = [
    (m.Hello([1], ["none", "lz4"], ["arrow"], "me"), "96009101 92a46e6f6e65a36c7a34 91a56172726f77 a26d65 ff"),
    (m.GetMetadata(None), "9301c0c2"),
    (m.GetMetadata(["a", "b"], True), "930192a161a162c3"),
    (m.Produce(7, 2, 3, m.ACKS_LEADER), "950207020301"),
    (m.Produce(7, 2, 0), "9502070200ff"),
    (
        m.Fetch([m.FetchPart(7, 0, 1000, 65536)], 500, 1, 1 << 20),
        "98039194 0700cd03e8ce00010000 cd01f401ce00100000c3c2c2",
    ),
    (m.Fetch([], 0, 1, 8, False, True), "980390000108c2c3c2"),
    (m.ListOffsets([m.OffsetPart(7, 1, EARLIEST)]), "93049193070192a86561726c6965737400c3"),
    (m.ListOffsets([m.OffsetPart(7, 1, Position("time", 9))]), "93049193070192a474696d6509c3"),
    (m.InitProducer(), "9305ffff"),
    (m.InitProducer(12, 3), "93050c03"),
    (m.CreateTopic("t", {"partitions": 6}), "9306a17481aa706172746974696f6e7306"),
    (m.DescribeTopic("t"), "9207a174"),
    (m.AlterTopic("t", {"ttl": None}), "9308a17481a374746cc0"),
    (m.DeleteTopic("t"), "9209a174"),
    (m.AddPartitions("t", 9), "930aa17409"),
    (m.PurgeTopic("t"), "920ba174"),
    (m.Ping(), "910c"),
]
RESPONSES: list[tuple[m.Message, str]] = [
    (m.Failure("internal", "no", True), "9464a8696e7465726e616ca26e6fc3"),
    (m.Welcome(1, "n", ["none"], ["arrow"], 3, 2, 1, "q", 8), "9c6501a16e91a46e6f6e6591a56172726f77030201a171080001"),
    (m.Metadata([m.TopicInfo(1, "t", 3, 9)], ["u"]), "9566919601a1740309909091a1759080"),
    (m.Metadata([m.TopicInfo(1, "t", 3, 9, (1, 0, 1))], []), "9566919601a1740309930100019090" + "9080"),
    (
        m.Metadata(
            [m.TopicInfo(1, "t", 1, 9, (), (4,))],
            [],
            (m.NodeInfo("1", "h", 5, 6, "a"),),
            {4: m.UnitInfo("1", ("1", "2"), ("1",))},
        ),
        "9566919601a1740109909104909195a131a16805 06a161810493a13192a131a13291a131",
    ),
    (m.Produced(1 << 40, 5), "9767cf000001000000000005c2c290c2"),
    (m.Produced(1 << 40, 5, False, True), "9767cf000001000000000005c2c390c2"),
    (m.Produced(9, 5, False, False, ((1, 3, False),)), "9767" + "0905c2c29193" + "0103c2" + "c2"),
    (
        m.Fetched([m.FetchedPart(7, 0, 88, 1, 2, 2, 4, [(5, 6)], m.Failure("x", "y"), 9)], 8),
        "9368919c070058010202 0491920506 9464a178a179c209c0c2 08",
    ),
    (m.Offsets([m.FoundOffset(4), m.FoundOffset(-1, m.Failure("x", "y"))]), "9269929204c092ff9464a178a179c2"),
    (m.ProducerIdentity(9, 0), "936a0900"),
    (m.TopicDescription(1, "t", 2, {"ttl": None}, 3, [(0, 5)], 4, (2,)), "996b01a1740281a374746cc003919200 05049102"),
    (m.Done(), "916c"),
]

REQUESTS += [
    (g.JoinGroup("g", "c", ["t"]), "9b14a167a16391a174c0c0cd7530c0ab636f6f7065726174697665c092a86561726c6965737400"),
    (
        g.JoinGroup("g", "c", [], "o.*", "i", 9000, "m", "eager", "range", LATEST),
        "9b14a167a16390a36f2e2aa169cd2328a16da56561676572a572616e676592a66c617465737400",
    ),
    (g.GroupHeartbeat("g", "m", 7, [(1, 2)]), "9715a167a16d0791920102cd0bb8c2"),
    (g.LeaveGroup("g", "m"), "9316a167a16d"),
    (g.CommitOffsets("g", "m", [g.CommitPart(1, 2, 3, "n")], 4), "9617a167a16d9194010203a16e04c2"),
    (g.ListGroups(), "9118"),
    (g.DescribeGroup("g"), "9219a167"),
    (g.ResetGroup("g", "t", EARLIEST), "971aa167a17492a86561726c6965737400c0c2c0"),
    (g.ResetGroup("g", "t", None, -5, True), "971aa167a174c0fbc3c0"),
    (g.ResetGroup("g", "t", like="h"), "971aa167a174c0c0c2a168"),
    (g.DeleteGroup("g"), "921ba167"),
    (g.AlterGroup("g", {"a": 1}), "931ca16781a16101"),
]
RESPONSES += [
    (
        g.MemberAssignment("m", 1, 2, "none", [g.AssignedPart(1, "t", 2, 3)], [(1, 4)], 5),
        "9878a16d0102a46e6f6e65919401a17402039192010405",
    ),
    (
        g.GroupList([g.GroupSummary("g", "queue", "stable", 1, 2, ["t"], 3, 4, 5)]),
        "92799199a167a57175657565a6737461626c65010291a174030405",
    ),
    (
        g.GroupDescription(
            "g",
            "stream",
            "empty",
            "eager",
            "range",
            1,
            [g.GroupMember("m", "c", None, 1, 2, [("t", 0)])],
            [g.GroupPartition("t", 0, None, 5, 5, 6, "m")],
            {},
        ),
        "9a7aa167a673747265616da5656d707479a56561676572a572616e6765019196a16da163c00102"
        "9192a174009198a17400c0050506a16da080",
    ),
    (g.GroupReset([g.ResetPart(0, None, 4)]), "927b919300c004"),
]


REQUESTS += [
    (q.Receive([7], "g"), "9b289107a167a064ce0080000000c0c0c0c0"),
    (
        q.Receive([7, 8], "g", "c", 10, 65536, 500, 30_000, "key", 0, LATEST),
        "9b28920708a167a1630ace00010000cd01f4cd7530a36b65790092a66c617465737400",
    ),
    (
        q.Settle(
            [
                SettleRequest(7, 0, 1, 1 << 32 | 5, ACK, [(3, 9)]),
                SettleRequest(7, 1, 1, 6, NACK, [(3, 4)], 500, False, "no", True),
            ]
        ),
        "9229929a070001cf00000001000000050091920309c0c3a0c29a070101060191920304cd01f4c2a26e6fc3",
    ),
    (q.DescribeQueues("t"), "932aa174c0"),
    (q.DescribeQueues("t", "g"), "932aa174a167"),
]
RESPONSES += [
    (
        q.Received([q.ReceivedRun(7, 0, 1, 1 << 32 | 5, 3, 9, 2, 1000, 30_000, 900, "no", 88)]),
        "93cc8c919c070001cf0000000100000005030902cd03e8cd7530cd0384a26e6f5890",
    ),
    (
        q.Settled([q.SettledPart([q.RefusedRun(3, 9, "lease_lost", "over", False, True)], 1500), q.SettledPart([])]),
        "92cc8d929291960309aa6c656173655f6c6f7374a46f766572c2c3cd05dc9290c0",
    ),
    (
        q.QueueDepths([q.QueueDepth("g", 6, [0, 1, 5, 0, 0], 2, 1, 0, 3, 900, [(b"k", 4)], {"c": 2})]),
        "92cc8e919da1670695000105000002010003cd03849192c4016b0481a16302c0a000",
    ),
]


_FILTER = DeadLetterFilter(
    ids=[(0, 1)], partition=2, group="g", reason="r", key=b"k", contains=b"c", from_time_ms=3, to_time_ms=4
)
REQUESTS += [
    (d.ListDeadLetters("t", DeadLetterFilter()), "9732a17498c0c0c0c0c0c0c0c0cd03e800c0c2"),
    (
        d.ListDeadLetters("t", _FILTER, 10, 1, DeadLetterCursor(9, 0, 5), True),
        "9732a174989192000102a167a172c4016bc4016303040a0193090005c3",
    ),
    (
        d.RedriveDeadLetters("t", DeadLetterFilter(), 5, "u", True, DeadLetterCursor(9, 0, 5)),
        "9733a17498c0c0c0c0c0c0c0c005a175c393090005",
    ),
    (d.PurgeDeadLetters("t", DeadLetterFilter()), "9634a17498c0c0c0c0c0c0c0c0c0c2c0"),
    (d.ListRemovedDeadLetters("t", (1, 7)), "9335a174920107"),
]
_ORIGINAL = Original("t", 0, 7, 8, None)
_DEAD_LETTER = DeadLetter(0, 1, 2, 3, None, b"v", {"a": b"b"}, Priority.LOW, "rejected", "e", 2, "g", _ORIGINAL)
RESPONSES += [
    (
        d.DeadLetters([_DEAD_LETTER], 1, DeadLetterCursor(3, 0, 1)),
        "94cc96919d00010203c0c4017681a161c4016203a872656a6563746564a16502a16795a174000708c00193030001",
    ),
    (d.TakenDeadLetters(1, [(0, 1)], [(0, 2)], None, 5), "96cc97019192000191920002c005"),
    (d.RemovedDeadLetters([(0, 1, 3)], (0, 3)), "93cc989193000103920003"),
]


REQUESTS += [
    (s.AddSchedule("@daily", "t", b"v"), "9a46a6406461696c79a174c40176a0c08002a3555443c2"),
    (
        s.AddSchedule("@daily", "t", None, "n", b"k", {"h": b"x"}, Priority.LOW, "Asia/Tokyo", True),
        "9a46a6406461696c79a174c0a16ec4016b81a168c4017803aa417369612f546f6b796fc3",
    ),
    (s.ListSchedules(), "9247c0"),
    (s.ListSchedules("n"), "9247a16e"),
    (
        s.AlterSchedule("n", ScheduleChanges(is_paused=True, key=None)),
        "9348a16e82a36b6579c0a969735f706175736564c3",
    ),
    (s.RemoveSchedule("n"), "9249a16e"),
    (s.RunSchedule("n"), "924aa16e"),
]
RESPONSES += [
    (
        s.ScheduleList(
            [
                s.ScheduleInfo(
                    "n", "@daily", "UTC", "t", b"v", None, {"h": b"x"}, Priority.HIGH, False, 1, 2, None, 3, "e"
                )
            ]
        ),
        "92ccaa919ea16ea6406461696c79a3555443a174c40176c081a168c4017801c20102c003a165",
    ),
]


REQUESTS += [
    (
        w.BeginSearch("t", "true"),
        "9d1ea174a474727565 92a86561726c6965737400 92a66c617465737400 c0c3c264c0c0cb404e000000000000c0",
    ),
    (
        w.BeginSearch(
            "t", "key", Position("time", 9), Position("offset", 7), [0, 2], False, True, 5, 6, 7, 0.5, "oldest;0:1"
        ),
        "9d1ea174a36b6579 92a474696d6509 92a66f666673657407 920002c2c3050607cb3fe0000000000000aa6f6c646573743b303a31",
    ),
    (w.GetSearch("a", 3, 500), "941fa16103cd01f4"),
    (w.CancelSearch("a"), "9220a161"),
]
RESPONSES += [
    (
        w.SearchProgress("a", "running", 1, 2, 3, 4, 5, [], None, None, None, 0.5),
        "9dcc82a161a772756e6e696e67010203040590c0c0c0cb3fe0000000000000",
    ),
    (
        w.SearchProgress(
            "a",
            "done",
            1,
            2,
            3,
            4,
            1,
            [w.FoundRow(1, 2, 3, 4, None, b"v", {"h": b"x"}, Priority.HIGH)],
            "newest;0:1",
            "limit",
            "e",
            0.5,
        ),
        "9dcc82a161a4646f6e650102030401 919801020304c0c4017681a168c4017801"
        "aa6e65776573743b303a31 a56c696d6974 a165 cb3fe0000000000000",
    ),
]

REQUESTS += [
    (q.PauseQueue("t", "g", "r"), "942ba174a167a172"),
    (q.ResumeQueue("t", "g"), "932ca174a167"),
    (c.CompactTopic("t"), "945aa174c0c2"),
    (c.CompactTopic("t", [0, 2], True), "945aa174920002c3"),
]
RESPONSES += [
    (
        c.CompactedTopic(9, 4, 0.5, [c.CompactedPartition(2, 9, 4, 0.5)], True),
        "96ccbe0904cb3fe0000000000000919402 0904cb3fe0000000000000c3",
    ),
]


REQUESTS += [
    (t.InitTransactions(), "9350c0cdea60"),
    (t.InitTransactions("id", 5000), "9350a26964cd1388"),
    (t.BeginTransaction(7, 2), "93510702"),
    (
        t.AddOffsets(7, 2, [t.GroupOffsetCommit("g", [g.CommitPart(3, 0, 42, "m")], "me", 7)]),
        "945207029194a167919403002aa16da26d6507",
    ),
    (t.AddAcks(7, 2, [t.LeasedAcks(3, 1, 9, 10, [(0, 5)])]), "9453070291950301090a91920005"),
    (t.CommitTransaction([t.ProducerKey(7, 2)]), "965491920702c09090c0"),
    (
        t.CommitTransaction(
            [t.ProducerKey(7, 2), t.ProducerKey(8, 0)],
            "batch 1",
            [t.GroupOffsetCommit("g", [g.CommitPart(3, 0, 42, "m")], "me", 7)],
            [t.LeasedAcks(3, 1, 9, 10, [(0, 5)])],
            "3 rows",
        ),
        "965492920702920800a7626174636820319194a167919403002aa16da26d650791950301090a91920005a63320726f7773",
    ),
    (t.AbortTransaction([t.ProducerKey(7, 2)]), "925591920702"),
    (t.ListTransactions(), "9356cd03e800"),
    (t.DescribeTransaction("id"), "9357a26964ff"),
    (t.DescribeTransaction(None, 7), "9357c007"),
    (t.GetTransactionStats(), "9158"),
]
RESPONSES += [
    (
        t.Transaction(t.TransactionInfo("7:2", "id", 7, 2, "open", 1000, 60000, [("orders", 0)], ["g"])),
        "92ccb499a3373a32a269640702a46f70656ecd03e8cdea609192a66f72646572730091a167",
    ),
    (t.TransactionEnded(True, [t.ProducerKey(7, 3)]), "94ccb5c391920703c2"),
    (t.TransactionEnded(False, [t.ProducerKey(7, 3)], True), "94ccb5c291920703c3"),
    (
        t.TransactionList([t.TransactionInfo("7:2", "id", 7, 2, "open", 1000, 60000, [("orders", 0)], ["g"])], 1),
        "93ccb69199a3373a32a269640702a46f70656ecd03e8cdea609192a66f72646572730091a16701",
    ),
    (t.TransactionStats(1, 2, 3, 0.5), "95ccb7010203cb3fe0000000000000"),
]


_LIFE = MessageLife("t", 0, 7, [LifeEvent("appended", 5, to=Place("u", 1, 2))], [GroupStanding("g", "queue", "dead")])
REQUESTS += [
    (
        f.SearchTraces(TraceFilter(topic="t", status="error"), 5),
        "936088a5746f706963a174a9706172746974696f6ec0a567726f7570c0a36b6579c0a873746172745f6d73c0a6"
        "656e645f6d73c0a6737461747573a56572726f72af6d696e5f6475726174696f6e5f6d73c005",
    ),
    (f.GetTrace("0a"), "9261a23061"),
    (f.GetTraceStats(), "9162"),
]
_SPAN = Span(trace_id="0a", span_id="b", event_type="consume.acked", time_ms=5, topic="t", partition=0, offset=7)
_COUNTERS = TraceStats(
    enabled=True, spans_in_buffer=1, buffer_capacity=2, traces_indexed=3, spans_written=4, spans_dropped=5
)
RESPONSES += [
    (
        f.Traces([Trace(trace_id="0a", spans=[_SPAN])]),
        "92ccc49182a874726163655f6964a23061a57370616e739187a874726163655f6964a23061a77370616e5f6964"
        "a162aa6576656e745f74797065ad636f6e73756d652e61636b6564a774696d655f6d7305a5746f706963a174a9"
        "706172746974696f6e00a66f666673657407",
    ),
    (
        f.TraceCounters(_COUNTERS),
        "92ccc586a7656e61626c6564c3af7370616e735f696e5f62756666657201af6275666665725f63617061636974"
        "7902ae7472616365735f696e646578656403ad7370616e735f7772697474656e04ad7370616e735f64726f7070"
        "656405",
    ),
]
REQUESTS += [(f.GetLife("t", 0, 7), "945fa1740007")]
RESPONSES += [
    (
        f.Life(_LIFE),
        "92ccc399a1740007919da8617070656e64656405a0a000c0a0a0c093a1750102c0c0a09194a167a57175657565a46465616400c090a0c0",
    )
]


REQUESTS += [
    (y.ListDelayed("t"), "943ca174cd03e800"),
    (y.ListDelayed("t", 10, 20), "943ca1740a14"),
    (y.GetDelayed("t", 2, 1 << 40), "943da17402cf0000010000000000"),
    (y.CancelDelayed("t", 2, [5, 6]), "943ea17402920506"),
    (y.RescheduleDelayed("t", 2, [5, 6], 7), "953fa1740292050607"),
]
RESPONSES += [
    (
        y.DelayedList([DelayedMessage(2, 5, 1_800_000_000_000, Priority.HIGH, "pending")], 7),
        "93cca091950205cf000001a3185c500001a770656e64696e6707",
    ),
    (
        y.Delayed(DelayedMessage(0, 5, 9, Priority.NORMAL, "cancelled")),
        "92cca19500050902a963616e63656c6c6564",
    ),
    (y.CancelledDelayed([5]), "92cca29105"),
    (y.RescheduledDelayed([5]), "92cca39105"),
]


@pytest.mark.parametrize(("message", "golden"), REQUESTS)
def test_request_bytes(message: m.Message, golden: str) -> None:
    encoded = encode_packet(1, message)[PREFIX_BYTES:]
    assert encoded.hex() == golden.replace(" ", "")
    assert decode_request(encoded) == message


@pytest.mark.parametrize(("message", "golden"), RESPONSES)
def test_response_bytes(message: m.Message, golden: str) -> None:
    encoded = encode_packet(1, message)[PREFIX_BYTES:]
    assert encoded.hex() == golden.replace(" ", "")
    assert decode_response(encoded) == message


def test_every_message_has_golden_bytes() -> None:
    assert {type(message) for message, _ in REQUESTS} == set(get_args(m.Request))
    assert {type(message) for message, _ in RESPONSES} == set(get_args(m.Response))


def test_no_tag_is_used_twice() -> None:
    for known in (m.Request, m.Response):
        tags = [kind.__struct_config__.tag for kind in get_args(known)]
        assert len(tags) == len(set(tags))


@pytest.mark.parametrize(("message", "golden"), REQUESTS)
def test_fields_of_a_later_version_are_ignored(message: m.Message, golden: str) -> None:
    longer = [*msgspec.msgpack.decode(bytes.fromhex(golden)), "new", {"more": 1}]
    assert decode_request(msgspec.msgpack.encode(longer)) == message


def test_fields_with_defaults_may_be_left_out() -> None:
    assert decode_request(msgspec.msgpack.encode([3, []])) == m.Fetch([])
    assert decode_request(msgspec.msgpack.encode([2, 1, 2, 3])) == m.Produce(1, 2, 3)


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        [99],
        ["0"],
        [2],
        [2, 1, 2, "3"],
        [3, [[1, 2]]],
        [4, [[1, 0, ["soon", 0]]]],
        [6, 5, {}],
        {"tag": 1},
        12,
        None,
    ],
)
def test_wrong_shapes_are_protocol_errors(wrong: Any) -> None:
    with pytest.raises(ProtocolError, match="a request cannot be read"):
        decode_request(msgspec.msgpack.encode(wrong))


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_a_message_or_a_protocol_error(data: bytes) -> None:
    for decode in (decode_request, decode_response):
        try:
            decode(data)
        except ProtocolError:
            continue


_BOMBS = """
import resource, sys
from quiver.model.errors import ProtocolError
from quiver.protocol.packet import decode_request
resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))
for bomb in sys.argv[1:]:
    data = bytes.fromhex(bomb)
    try:
        decode_request(data)
    except ProtocolError:
        continue
    sys.exit(f"{bomb} was taken for a request")
"""


def test_claimed_lengths_and_nesting_take_neither_memory_nor_stack() -> None:
    bombs = [
        "ddffffffff",
        "9201ddffffffff",
        "9201dd03ffffff",
        "9306a161dfffffffff",
        "9306a16181a162c6ffffffff",
        "9306dbffffffff",
        "9306a16181a162" + "91" * 50_000,
        "9306a16181a162" + "81a161" * 15_000,
    ]
    subprocess.run([sys.executable, "-c", _BOMBS, *bombs], check=True)


def test_errors_survive_the_wire() -> None:
    for kind in CATALOGUE.values():
        failure = failure_of(kind("what to do"))
        back = error_of(failure)
        assert (type(back), back.message, back.retryable) == (kind, "what to do", kind.retryable)
    assert failure_of(TopicNotFound(topic="t")).message.startswith("there is no topic 't'")


def test_a_foreign_error_tells_the_client_nothing_of_its_cause() -> None:
    failure = failure_of(KeyError("/etc/secret"))
    assert (failure.code, "secret" in failure.message) == ("internal", False)


def test_an_unknown_code_keeps_its_name() -> None:
    error = error_of(m.Failure("from_the_future", "wait", True))
    assert (type(error), error.code, error.retryable) == (QuiverError, "from_the_future", True)
