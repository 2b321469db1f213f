"""The schemas of values that are stored with a broker: messages of a compacted topic, one for each topic.

A schema is stored with the id of its topic: one that was created again under the name has none.
"""

import contextlib
from typing import TYPE_CHECKING, Any

import msgspec

from quiver.model.errors import InvalidRequest, TopicNotFound
from quiver_spark.broker_client import address_of, broker_client
from quiver_spark.json_values.typed_values import ddl, typed_values, value_columns
from quiver_spark.options.option_map import DEFAULT_BOOTSTRAP
from quiver_spark.source.catalogue import chosen_extents, open_catalogue, plan
from quiver_spark.source.frames import read_slice
from quiver_spark.source.options import ReadOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    import quiver

SCHEMAS_TOPIC = "__value_schemas"
_TIMEOUT_SECONDS = 30.0
_SPACE = 32


class StoredSchema(msgspec.Struct, frozen=True):
    topic_id: int
    fields: dict[str, Any]
    """The JSON of a StructType."""

    @property
    def text(self) -> str:
        """As the option valueSchema takes it."""
        return msgspec.json.encode(self.fields).decode()


def store_schema(
    spark: "SparkSession",
    topic: str,
    schema: "StructType | str | None",
    broker: "quiver.Client | str" = DEFAULT_BOOTSTRAP,
) -> None:
    """Stores the schema of a topic's JSON values with the broker, for all who read it with `valueSchema=stored` and
    for the tables of catalogs. None removes it.

    `schema` is a StructType, DDL, or `infer`. Raises InvalidRequest for one that JSON values cannot have, and
    TopicNotFound.
    """
    address = address_of(broker)
    client = broker_client(address, _TIMEOUT_SECONDS)
    topic_id, content = client.topics.describe(topic).id, None
    if schema is not None:
        content = msgspec.json.encode(StoredSchema(topic_id, _fields(spark, topic, schema, address)))
    client.topics.create(SCHEMAS_TOPIC, exist_ok=True, partitions=1, cleanup="compact", retention=None)
    client.publish(SCHEMAS_TOPIC, content, key=topic)


def _fields(spark: "SparkSession", topic: str, schema: "StructType | str", address: str) -> dict[str, Any]:
    """The schema as Spark understands it."""
    from pyspark.sql.types import StructType

    given = schema.json() if isinstance(schema, StructType) else schema
    frame = spark.read.format("quiver").options(bootstrap=address, topic=topic, valueSchema=given).load()
    typed_values(frame.schema, frame.columns)
    kind = frame.schema["value"].dataType
    if not isinstance(kind, StructType):
        raise InvalidRequest(problem=f"{schema!r} is no schema: give a StructType, DDL, infer, or None to remove it")
    if any(ord(letter) < _SPACE for letter in ddl(kind)):
        raise InvalidRequest(problem="the schema has a field with a control character in its name; leave it out")
    return kind.jsonValue()


def stored_schema(options: ReadOptions) -> str:
    """That of the topics that are read. Raises InvalidRequest if one has none, or another one than the others."""
    known = stored_schemas(options)
    catalogue = open_catalogue(options)
    try:
        extents = chosen_extents(catalogue, options)
    finally:
        catalogue.close()
    found = {}
    for extent in extents:
        schema = known.get(extent.name)
        if schema is None or schema.topic_id != extent.id:
            raise InvalidRequest(
                problem=f"option 'valueSchema': no schema is stored for the topic {extent.name!r}; store one with"
                " quiver_spark.store_schema, or give it"
            )
        found[extent.name] = schema.text
    if len(set(found.values())) != 1:
        raise InvalidRequest(
            problem=f"option 'valueSchema': the schemas that are stored for {', '.join(found)} differ; read each"
            " topic by itself, or give a schema"
        )
    return next(iter(found.values()))


def stored_schemas(options: ReadOptions) -> dict[str, StoredSchema]:
    """All that are stored where these options read, by topic."""
    where = ReadOptions(
        bootstrap=options.bootstrap,
        path=options.path,
        topics=(SCHEMAS_TOPIC,),
        timeout_seconds=options.timeout_seconds,
        local_files=False,
    )
    try:
        slices = plan(where, cores=1)
    except TopicNotFound:
        return {}
    found: dict[str, StoredSchema] = {}
    for slice_ in slices:
        for batch in read_slice(slice_, where, ("key", "value")):
            for key, value in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if value is None:
                    found.pop(key.decode(), None)
                else:
                    found[key.decode()] = msgspec.json.decode(value, type=StoredSchema)
    return found


def stored_columns(bootstrap: str, timeout_seconds: float) -> dict[str, dict[str, str]]:
    """The columns of values, by topic, where a schema is stored."""
    known = stored_schemas(ReadOptions(bootstrap=bootstrap, timeout_seconds=timeout_seconds))
    client, found = broker_client(bootstrap, timeout_seconds), {}
    for topic, schema in known.items():
        with contextlib.suppress(TopicNotFound):
            if client.topics.describe(topic).id == schema.topic_id:
                found[topic] = value_columns(schema.text)
    return found
