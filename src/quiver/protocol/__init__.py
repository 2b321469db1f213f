"""The native protocol as bytes and values, without sockets."""
