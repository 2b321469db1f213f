"""Logs of frames: segment files, their indexes, recovery, retention. Usable without a running broker."""
