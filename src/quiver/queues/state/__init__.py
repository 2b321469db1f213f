"""The pure state of one group in one partition: which messages are leased, waiting or settled."""
