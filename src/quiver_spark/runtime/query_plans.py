"""What a session's optimizer is taught about topics. Spark's own compiler for generated code compiles the classes.

`PlanEachQuery`: Spark 4.3 asks a Python source for its partitions once and keeps them with the DataFrame or view. A
source cannot prevent that. `NarrowReads`: a Python source does not learn which columns and rows a query needs.
`PlainScans`: Spark copies the rows of a Python source twice.
"""

import logging
from typing import TYPE_CHECKING, Any

from quiver_spark.runtime.java_source import JavaClass, compiled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_logger = logging.getLogger(__name__)
_PACKAGE = "quiver_spark.runtime"
_RULE = JavaClass(_PACKAGE, "PlanEachQuery")
_FASTER = {
    JavaClass(_PACKAGE, "NarrowReads", ("FilterHints", "FrameSummaries")): "extraOptimizations",
    JavaClass(_PACKAGE, "PlainScans"): "extraStrategies",
}
CLASSES = (_RULE, *_FASTER)


def plan_each_query(spark: "SparkSession") -> None:
    """From here on each query of the session reads topics as they are when it begins, and only what it needs.

    Once in a session is enough. A session that takes no rule (Spark Connect, another version of Spark) stays as it is
    and a warning says so.
    """
    try:
        _add(spark, _RULE, "extraOptimizations")
    except Exception as error:  # a Spark without these internals may raise anything
        _logger.warning(
            "a DataFrame of this session is planned at its first action and shows nothing newer; load() it again to"
            " read what was published since (%s)",
            str(error).partition("\n")[0],
        )
        return
    for rule, where in _FASTER.items():
        try:
            _add(spark, rule, where)
        except Exception as error:
            _logger.warning(
                "queries of this session read all columns that load() has; name those you need by schema() (%s: %s)",
                rule.name,
                str(error).partition("\n")[0],
            )


def _add(spark: "SparkSession", rule: JavaClass, where: str) -> None:
    """Adds a rule or strategy to those of the session, unless it is there."""
    planner: Any = spark._jsparkSession.experimental()
    known = getattr(planner, where)()
    if f"quiver.spark.{rule.name}" not in _class_names(known):
        getattr(planner, f"{where}_$eq")(known.appended(compiled(spark.sparkContext, rule)))


def _class_names(rules: Any) -> list[str]:
    return [str(rules.apply(place).getClass().getName()) for place in range(rules.length())]
