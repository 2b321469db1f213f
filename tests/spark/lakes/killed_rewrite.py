"""Optimizes or vacuums a lake without Spark, until it is killed. Arguments: what, lake."""

import sys

from quiver_spark.jobs.optimize.bins import bins
from quiver_spark.jobs.optimize.job import rewrite_task
from quiver_spark.jobs.vacuum import run as remove_unused
from quiver_spark.lake.opening import open_lake

if __name__ == "__main__":
    what, place = sys.argv[1:]
    if what == "vacuum":
        remove_unused(place, older_than="0s")
    else:
        lake = open_lake(place)
        groups = bins(lake.files())
        task = rewrite_task(lake, compression="zstd")
        new = [task.write(group).new for group in groups]
        old = [file for group in groups for file in group]
        lake.replace(old, [file for file in new if file is not None], {"job": "optimize"})
