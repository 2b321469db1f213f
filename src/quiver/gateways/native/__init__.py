"""The native protocol over sockets: sans-IO packets from quiver.protocol in front, the broker behind."""
