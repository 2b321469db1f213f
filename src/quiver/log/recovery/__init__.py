"""Opening a log: the record of its end, and recovery after an unclean stop."""
