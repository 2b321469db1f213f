"""The native protocol over sockets: from packets (quiver.protocol) to calls of the broker and back."""
