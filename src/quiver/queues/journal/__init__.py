"""The delivery journal of a partition: what is written before a receive or an ack is answered."""
