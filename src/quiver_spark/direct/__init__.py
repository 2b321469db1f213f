"""Reading the files of brokers: a data directory by its path, or the files of a running broker on this machine."""
