"""Makes Spark plan the reads of every query again.

Spark 4.3 asks a Python source for its partitions once and keeps them with the DataFrame or view. A source cannot
prevent that, so the session gets a rule for its optimizer (PlanEachQuery.java), which Spark's own
compiler for generated code turns into a class.
"""

import logging
from typing import TYPE_CHECKING, Any

from quiver_spark.runtime.java_source import compiled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_logger = logging.getLogger(__name__)
_PACKAGE = "quiver_spark.runtime"
_RULE = "PlanEachQuery"


def plan_each_query(spark: "SparkSession") -> None:
    """From here on each query of the session reads topics as they are when it begins. Once in a session is enough.

    A session that takes no rule (Spark Connect, another version of Spark) stays as it is and a warning says so.
    """
    try:
        optimizer: Any = spark._jsparkSession.experimental()
        rules = optimizer.extraOptimizations()
        if _RULE not in rules.toString():
            getattr(optimizer, "extraOptimizations_$eq")(rules.appended(compiled(spark, _PACKAGE, _RULE)))
    except Exception as error:  # a Spark without these internals may raise anything
        _logger.warning(
            "a DataFrame of this session is planned at its first action and shows nothing newer; load() it again to"
            " read what was published since (%s)",
            str(error).partition("\n")[0],
        )
