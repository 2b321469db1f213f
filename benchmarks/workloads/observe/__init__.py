"""What it costs to look at a broker: metrics, search, tails, traces, and the console in a browser."""
