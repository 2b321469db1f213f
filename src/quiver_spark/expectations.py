"""Expectations on the rows of a topic: rows that meet all of them, and dead letters of those that do not.

```python
EXPECTED = Expectations({"amount is positive": "amount > 0", "country is known": "country IS NOT NULL"})
good = EXPECTED.met(rows)
bad = EXPECTED.dead_letters(rows, group="orders-pipeline")
```
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from quiver.model.dead_letter import HEADER_NAMES, HEADER_PREFIX
from quiver.model.errors import InvalidRequest

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

REASON = "rejected"
_TIME_FORM = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"
_SEPARATOR = "; "


class Expectations:
    """Conditions in SQL by their names. A condition that is null for a row is not met."""

    def __init__(self, conditions: Mapping[str, str]) -> None:
        if not conditions:
            raise InvalidRequest(
                problem="name at least one expectation, such as {'amount is positive': 'amount > 0'}"
            )
        self.conditions = dict(conditions)

    def met(self, frame: "DataFrame") -> "DataFrame":
        """The rows that meet all of them."""
        return frame.where(self._failed() == "")

    def failed(self, frame: "DataFrame") -> "DataFrame":
        """The rows that do not, with the names of what they fail in the column `failed`."""
        # Not withColumn: a declarative pipeline takes no operation that needs the columns before the flow runs.
        return frame.select("*", self._failed().alias("failed")).where("failed != ''")

    def dead_letters(self, frame: "DataFrame", group: str) -> "DataFrame":
        """The messages that do not, as dead letters for the sink: rejected, with what failed as the error.

        The frame has the columns of the quiver source, and those that the conditions need. `group` is who rejected
        them: the name of the pipeline.
        """
        from pyspark.sql import functions as f

        rows = self.failed(frame)
        own = f.map_filter(
            f.coalesce("headers", f.expr("map()").cast("map<string,binary>")),
            lambda name, _: ~name.isin(*sorted(HEADER_NAMES)),
        )
        written = {
            "topic": f.col("topic"),
            "partition": f.col("partition").cast("string"),
            "offset": f.col("offset").cast("string"),
            "timestamp": _time_text(f.col("timestamp")),
            "appended_at": _time_text(f.col("append_time")),
            "attempts": f.lit("1"),
            "group": f.lit(group),
            "reason": f.lit(REASON),
            "error": f.concat(f.lit("expectation failed: "), f.col("failed")),
            "died_at": _time_text(f.current_timestamp()),
            "key": f.col("key"),
        }
        names = f.array(*(f.lit(f"{HEADER_PREFIX}{name}") for name in written))
        added = f.map_from_arrays(names, f.array(*(value.cast("binary") for value in written.values())))
        present = f.map_filter(added, lambda _, value: value.isNotNull())
        return rows.select("key", "value", f.map_concat(own, present).alias("headers"), "timestamp", "priority")

    def _failed(self) -> "Column":
        """The names of the conditions that a row does not meet; empty if it meets all."""
        from pyspark.sql import functions as f

        parts = [
            f.when(f.coalesce(f.expr(condition), f.lit(False)), f.lit(None)).otherwise(f.lit(name))
            for name, condition in self.conditions.items()
        ]
        return f.concat_ws(_SEPARATOR, *parts)


def _time_text(moment: "Column") -> "Column":
    """RFC 3339 in UTC, whatever the time zone of the session is."""
    from pyspark.sql import functions as f

    return f.date_format(f.to_utc_timestamp(moment, f.current_timezone()), _TIME_FORM)
