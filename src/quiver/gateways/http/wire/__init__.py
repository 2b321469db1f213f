"""HTTP/1.1 on the wire: connections, the requests that arrive on them and the responses that leave."""
