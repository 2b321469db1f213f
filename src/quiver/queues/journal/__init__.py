"""The delivery journal of a partition: what is written before the response to a receive or an ack is sent."""
