"""Files of a log: the bounded set of open ones, durable directories, errors of writing."""
