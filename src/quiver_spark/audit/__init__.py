"""What the audit checks: stored frames, the files they lie in, and the lake beside them."""
