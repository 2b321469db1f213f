"""The life of a message, from what is on disk already: frame headers and journals. Nothing is recorded for it."""
