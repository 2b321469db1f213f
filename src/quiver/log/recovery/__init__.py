"""Opening a log: the note about its end, and what is done after an unclean stop."""
