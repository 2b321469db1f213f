"""The example notebook, cell by cell, in the session of the tests."""

import json
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import quiver_spark

NOTEBOOK = Path(__file__).resolve().parents[3] / "examples" / "orders.ipynb"
LARGE_ORDERS = 20


def test_the_notebook(spark: SparkSession) -> None:
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    *programs, last = ["".join(cell["source"]) for cell in cells]
    assert last == "spark.stop()\nq.close()"
    names: dict[str, Any] = {}
    try:
        for program in programs:
            exec(program, names)
        assert names["revenue"].where("country = 'AT'").first().revenue == sum(n / 4 for n in range(1, 300, 3))
        assert spark.table("quiver.revenue").count() == LARGE_ORDERS
        assert names["q"].groups.describe("large-orders").partitions[0].lag == 0
    finally:
        if "q" in names:
            names["q"].close()
        quiver_spark.register(spark)
        quiver_spark.register_tables(spark)
