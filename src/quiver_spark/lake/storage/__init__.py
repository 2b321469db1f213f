"""Where the files of a lake are: a directory, or an object store."""
