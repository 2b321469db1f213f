"""What is said about results: tables of one run, ratios of two checkouts."""
