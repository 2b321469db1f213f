"""Search jobs and the live tail."""
