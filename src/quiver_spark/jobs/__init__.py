"""Jobs on Spark: each has `run(spark, ...)` for Python, `main(argv)` for spark-submit, and `quiver pipeline <name>`.

`quiver.cli.commands.pipeline` lists them. In the folder of a job, `job.py` has what it does, `command.py` its command
line, and what decides without Spark is in modules of its own.
"""
