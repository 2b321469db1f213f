"""Data directories, read without their broker: its topics, groups, stored frames, transactions and deliveries.

Nothing is written, locked or repaired, and a broker may be writing while a directory is read. Every module here is
public. `data_directory` is where to begin:

- `data_directory`: the topics and groups of a directory, and its logs
- `log_reader`: one log: where it begins and ends, and which offset a time means
- `stored_frames`: the frames of a range of offsets
- `stored_transactions`: where committed messages end, and which transactions were aborted
- `delivery_history`: what a delivery journal says of messages: delivered, acked, dead
- `segment_directory`: the segment files of a log, for those who check them byte by byte
"""
