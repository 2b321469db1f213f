"""Reads data directories without their broker: topics, groups, stored frames, transactions and deliveries.

Nothing is written, locked or repaired, and a broker may be writing while a directory is read. Every module here is
public. `data_directory` is where to begin:

- `data_directory`: the topics and groups of a directory, and its logs
- `log_reader`: one log: its start and end, and the offset of a time
- `stored_frames`: the frames of a range of offsets
- `stored_transactions`: where committed messages end, and which transactions were aborted
- `delivery_history`: what happened to messages: delivered, acked, dead-lettered
- `segment_directory`: the segment files of a log, for programs that check them byte by byte
"""
