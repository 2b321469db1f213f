"""Jobs on Spark: each has `run(spark, ...)` for Python, `main(argv)` for spark-submit, and `quiver pipeline <name>`.

`quiver.cli.commands.pipeline` lists them. `<name>.py` has the job, `<name>_command.py` its command line, and what
decides without Spark is in files of its own beside them.
"""
