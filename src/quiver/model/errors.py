"""The error catalogue: one class per code, the same for HTTP, the native protocol, the SDK and the CLI.

A class is a row of data: its code, its HTTP status, whether trying again can help, and a sentence that
says what is wrong and what to do. `raise TopicNotFound(topic="orders")` fills the sentence in.
"""

from typing import Any, ClassVar


class QuiverError(Exception):
    """Something Quiver refuses or cannot do; `code` is stable, the sentence is for people."""

    code: str = "internal"
    status: int = 500
    retryable: bool = False
    sentence: ClassVar[str] = "an unexpected problem in the broker; its log has the details"

    def __init__(self, message: str | None = None, /, **details: Any) -> None:
        self.details = details
        super().__init__(message if message is not None else self.sentence.format(**details))

    @property
    def message(self) -> str:
        return str(self.args[0])

    def to_dict(self) -> dict[str, Any]:
        """The error object in HTTP responses."""
        return {"error": self.message, "code": self.code, "retryable": self.retryable, "status": self.status}


class InvalidRequest(QuiverError):
    code, status = "invalid_request", 400
    sentence = "{problem}"


class InvalidName(QuiverError):
    code, status = "invalid_name", 400
    sentence = (
        "{name!r} is not a valid {kind} name: use 1 to 240 of the characters A-Z a-z 0-9 . _ - "
        "(and neither '.' nor '..')"
    )


class InvalidSetting(QuiverError):
    code, status = "invalid_setting", 400
    sentence = "setting {setting!r}: {problem}"


class InvalidFrame(QuiverError):
    """A producer sent a frame that cannot be stored."""

    code, status = "invalid_frame", 400
    sentence = "the frame is refused: {problem}"


class MessageTooLarge(QuiverError):
    code, status = "message_too_large", 413
    sentence = (
        "a message of {size} bytes is over the limit of {limit}; store the payload elsewhere and send a "
        "reference, or raise max_message_bytes on the topic"
    )


class FrameTooLarge(QuiverError):
    code, status = "frame_too_large", 413
    sentence = "a frame of {size} bytes is over the limit of {limit}; send smaller batches"


class RequestTooLarge(QuiverError):
    code, status = "request_too_large", 413
    sentence = "a request of {size} bytes is over the limit of {limit}; split it"


class SlowClient(QuiverError):
    code, status, retryable = "slow_client", 408, True
    sentence = "{what} arrived more slowly than {rate}; send it faster, or in smaller requests"


class HostNotAllowed(QuiverError):
    code, status = "host_not_allowed", 403
    sentence = (
        "{host!r} is not a name of this broker; use its IP address or localhost, or start it with "
        "--allowed-host {host} (a web page may have pointed its own name here)"
    )


class ForeignOrigin(QuiverError):
    code, status = "foreign_origin", 403
    sentence = "requests that change something are refused from web pages of {origin}; send them from a program"


class ProtocolError(QuiverError):
    code, status = "protocol_error", 400
    sentence = "this is not the Quiver protocol: {problem}"


class UnsupportedVersion(QuiverError):
    code, status = "unsupported_version", 400
    sentence = "{problem}; upgrade the older side"


class TopicNotFound(QuiverError):
    code, status = "topic_not_found", 404
    sentence = "there is no topic {topic!r}; create it first (quiver topic create {topic})"


class PartitionNotFound(QuiverError):
    code, status = "partition_not_found", 404
    sentence = "topic {topic!r} has {count} partitions, numbered from 0: there is no partition {partition}"


class TopicExists(QuiverError):
    code, status = "topic_exists", 409
    sentence = "topic {topic!r} exists already; choose another name or alter the topic"


class StalePartitionCount(QuiverError):
    """The producer hashed keys with an old partition count; it must refresh the count and hash again."""

    code, status, retryable = "stale_partition_count", 409, True
    sentence = "topic {topic!r} now has {count} partitions; fetch metadata again and send again"


class OffsetOutOfRange(QuiverError):
    code, status = "offset_out_of_range", 416
    sentence = "offset {offset} is outside {topic}-{partition}, which has {earliest} to {latest}"


class CorruptData(QuiverError):
    """Stored bytes do not match their checksum. Nothing is deleted, and everything around them can be read."""

    code, status = "corrupt_data", 500
    sentence = "damaged data in {where}: {problem}; the bytes are kept, reading can go on at offset {next_offset}"


class PartitionOffline(QuiverError):
    code, status, retryable = "partition_offline", 503, True
    sentence = "{partition} takes no writes: {problem}; reads go on; restart the broker once this is repaired"


class DiskFull(QuiverError):
    code, status, retryable = "disk_full", 507, True
    sentence = "writes are refused: {problem}; reads go on, writes resume when there is room"


class OutOfSequence(QuiverError):
    code, status = "out_of_sequence", 409
    sentence = "producer {producer_id} sent sequence {sequence} instead of {expected}; it must take a new epoch"


class ProducerFenced(QuiverError):
    code, status = "producer_fenced", 409
    sentence = "producer {producer_id} epoch {epoch} is fenced by epoch {current}; another instance took over"


class UnknownProducer(QuiverError):
    code, status = "unknown_producer", 409
    sentence = "producer {producer_id} is not known here (its state has expired); it must take a new epoch"


class TransactionConflict(QuiverError):
    """Not possible now: the transaction is about to end, or the one before it has not ended in every partition."""

    code, status, retryable = "transaction_conflict", 409, True
    sentence = "transaction {transaction}: {problem}; try again"


class TransactionAborted(QuiverError):
    """Aborted by the broker, not by its producer. The producer may repeat the whole transaction."""

    code, status, retryable = "transaction_aborted", 409, True
    sentence = "transaction {transaction} was aborted: {problem}; run it again"


class CommitKeyConflict(QuiverError):
    """The commit key was already used for something else: nothing was committed."""

    code, status = "commit_key_conflict", 409
    sentence = "the commit key {key!r} was used for {committed!r} and now comes with {asked!r}; use a new key"


class TransactionNotFound(QuiverError):
    code, status = "transaction_not_found", 404
    sentence = "there is no transactional producer {producer!r}; quiver txn list shows them"


class MessageIdUndecided(QuiverError):
    """The first message with this id may still be aborted, so it is not known yet whether this one is a repeat."""

    code, status, retryable = "message_id_undecided", 409, True
    sentence = "a message with id {id!r} is part of a transaction that is still open, or is being written; try again"


class StaleEpoch(QuiverError):
    code, status, retryable = "stale_epoch", 409, True
    sentence = "epoch {epoch} has ended and {current} has begun; fetch metadata again"


class GroupNotFound(QuiverError):
    code, status = "group_not_found", 404
    sentence = "there is no group {group!r}; it is created when its first member joins"


class MemberNotFound(QuiverError):
    code, status = "member_not_found", 404
    sentence = "{member!r} is not a member of this group; join first"


class MemberFenced(QuiverError):
    code, status = "member_fenced", 409
    sentence = "member {member!r} was removed from the group (it was silent for too long, or replaced); join again"


class GenerationMismatch(QuiverError):
    code, status = "generation_mismatch", 409
    sentence = "generation {generation} is not the group's, which is {current}; heartbeat, then try again"


class GroupProtocolMismatch(QuiverError):
    code, status = "group_protocol_mismatch", 409
    sentence = "the group's members use the {protocol} protocol with the {assignor} assignor; join with the same"


class GroupNotEmpty(QuiverError):
    code, status = "group_not_empty", 409
    sentence = "group {group!r} has {members} members; stop them first"


class GroupKindMismatch(QuiverError):
    code, status = "group_kind_mismatch", 409
    sentence = "group {group!r} is a {kind} group, which was fixed at its first use; choose another group name"


class GroupOrderingMismatch(QuiverError):
    code, status = "group_ordering_mismatch", 409
    sentence = "group {group!r} has ordering {ordering!r}, fixed at its first use; choose another group name"


class InvalidReceipt(QuiverError):
    code, status = "invalid_receipt", 400
    sentence = "{receipt!r} is not a receipt; use the receipt_handle of a received message as it is"


class LeaseLost(QuiverError):
    """The receipt's lease has ended: the message was settled, or leased to another consumer."""

    code, status = "lease_lost", 410
    sentence = (
        "the lease on {message} is over: it was settled, or given to another consumer after its visibility time; "
        "the message needs nothing more from here"
    )


class SettleInOrder(QuiverError):
    """Ordered lanes are settled in order: an earlier message of the same key and lease is still open."""

    code, status = "settle_in_order", 409
    sentence = "settle offset {earlier} of the same key before offset {offset}: the group is ordered by key"


class DelayedNotFound(QuiverError):
    code, status = "delayed_not_found", 404
    sentence = "there is no delayed message {id} in {place}; it was delivered or cancelled, or never existed"

    def __init__(self, message: str | None = None, /, **details: Any) -> None:
        topic, partition = details.get("topic"), details.get("partition")
        details.setdefault("place", topic if partition is None else f"{topic}-{partition}")
        super().__init__(message, **details)


class MessageNotFound(QuiverError):
    code, status = "message_not_found", 404
    sentence = "there is no message {message}: {problem}"


class TraceNotFound(QuiverError):
    code, status = "trace_not_found", 404
    sentence = "there is no trace {trace}: no message of it was sampled, or the topic of traces keeps it no longer"


class DeadLetterNotFound(QuiverError):
    code, status = "dead_letter_not_found", 404
    sentence = "there is no dead letter {id!r} of {topic!r}; it was redriven or purged, or never existed"


class ScheduleNotFound(QuiverError):
    code, status = "schedule_not_found", 404
    sentence = "there is no schedule {schedule!r}; quiver schedule list shows them"


class ScheduleExists(QuiverError):
    code, status = "schedule_exists", 409
    sentence = "schedule {schedule!r} exists already; remove it first or choose another name"


class SearchNotFound(QuiverError):
    code, status = "search_not_found", 404
    sentence = "there is no search {search!r}, or no longer (a restart forgets it); begin it again, with its cursor"


class JobNotFound(QuiverError):
    code, status = "job_not_found", 404
    sentence = "there is no job {job!r}: the last hundred are known, and none from before the broker was started"


class NotSupported(QuiverError):
    code, status = "not_supported", 501
    sentence = "{feature} is not available in this version"


class Overloaded(QuiverError):
    code, status, retryable = "overloaded", 503, True
    sentence = "the broker has too much in flight ({problem}); slow down and try again"


class StorageUnavailable(Overloaded):
    code, status, retryable = "storage_unavailable", 503, True
    sentence = "the database cannot be used now ({problem}); the broker keeps trying: try again in a moment"


class CoordinationUnavailable(Overloaded):
    code, status, retryable = "coordination_unavailable", 503, True
    sentence = "etcd cannot be used now ({problem}); try again in a moment"


class NotLeader(QuiverError):
    """What was begun may or may not have happened."""

    code, status, retryable = "not_leader", 503, True
    sentence = "this node does not lead {what} (any more); try again, at its leader"


class NotEnoughReplicas(QuiverError):
    code, status, retryable = "not_enough_replicas", 503, True
    sentence = (
        "{what} has {count} replicas in sync and needs {wanted}; nothing was written: try again when more are back"
    )


class ShuttingDown(QuiverError):
    code, status, retryable = "shutting_down", 503, True
    sentence = "the broker is shutting down; try again in a moment or on another broker"


class WorkerUnavailable(QuiverError):
    """Another worker of the broker was asked, and it is not known whether it did what it was asked for."""

    code, status, retryable = "worker_unavailable", 503, True
    sentence = "worker {worker} of the broker {problem}; try again"


class NotOwner(QuiverError):
    """Nothing was begun."""

    code, status, retryable = "not_owner", 503, True
    sentence = "this broker does not run worker {worker} (any more); try again, at any broker"


class NodeNotFound(QuiverError):
    code, status = "node_not_found", 404
    sentence = "the cluster has no node {node!r}; GET /cluster names those that it has"


class NodeInUse(QuiverError):
    code, status = "node_in_use", 409
    sentence = "node {node} is alive; drain and stop it before you remove it"


class ReassignmentNotFound(QuiverError):
    code, status = "reassignment_not_found", 404
    sentence = (
        "there is no reassignment {reassignment!r}: the last fifty are known; GET /admin/reassignment lists them"
    )


class DataDirectoryInUse(QuiverError):
    code, status = "data_directory_in_use", 409
    sentence = "{path} is held by process {pid}; stop that process or choose another --data-dir"


class ConnectionLost(QuiverError):
    """Client side: the broker cannot be reached, or the connection broke before the response."""

    code, status, retryable = "connection_lost", 503, True
    sentence = "no connection to {address}: {problem}"


class RequestTimeout(QuiverError):
    code, status, retryable = "timeout", 504, True
    sentence = "no response within {seconds} s; the request may or may not have been carried out"


class MessageTimeout(QuiverError):
    """Client side: no message came within the time that the caller was willing to wait. It may simply call again."""

    code, status, retryable = "message_timeout", 504, True
    sentence = "no message came within {seconds:g} s{reason}"


class BufferFull(QuiverError):
    """Client side: the producer's memory stayed full for as long as the caller was willing to wait."""

    code, status, retryable = "buffer_full", 503, True
    sentence = "{size} bytes wait for the broker, over the producer's limit of {limit}; slow down, or raise the limit"


class Closed(QuiverError):
    code, status = "closed", 409
    sentence = "{what} is closed"


class ForkRefused(QuiverError):
    code, status = "fork_refused", 409
    sentence = "this object was made in process {pid}; after a fork, open a new one in the child"


class RouteNotFound(QuiverError):
    code, status = "route_not_found", 404
    sentence = "there is no {method} {path}; /docs lists what there is"


class MethodNotAllowed(QuiverError):
    code, status = "method_not_allowed", 405
    sentence = "{path} does not take {method}; it takes {allowed}"


class UnsupportedMediaType(QuiverError):
    code, status = "unsupported_media_type", 415
    sentence = "content type {content_type!r} is not understood; send application/json or application/msgpack"


def _all_kinds(kind: type[QuiverError]) -> dict[str, type[QuiverError]]:
    found = {kind.code: kind}
    for sub in kind.__subclasses__():
        found |= _all_kinds(sub)
    return found


CATALOGUE: dict[str, type[QuiverError]] = _all_kinds(QuiverError)


def error_from_wire(code: str, message: str, retryable: bool = False) -> QuiverError:
    """The error that a peer sent. A code that this version does not know becomes a QuiverError with that code."""
    kind = CATALOGUE.get(code)
    if kind is not None:
        return kind(message)
    error = QuiverError(message)
    error.code, error.retryable = code, retryable
    return error
