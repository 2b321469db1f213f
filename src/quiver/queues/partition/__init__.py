"""The queue of one partition: reading ahead, choosing, leasing and settling for each group."""
