"""Search: messages that fit an expression, found by jobs and shown live."""
