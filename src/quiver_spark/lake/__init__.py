"""The lake: Parquet files of messages, partitioned by topic and date, committed as a Delta table."""
