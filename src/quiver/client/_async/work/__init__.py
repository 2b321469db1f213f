"""Queue groups: jobs, batches of jobs, workers."""
