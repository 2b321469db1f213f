"""The delayed messages of one partition: its schedule log, what is read ahead, what is due."""
