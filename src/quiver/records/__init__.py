"""The frame codec: building frames, checking them when they come in, reading them in place."""
