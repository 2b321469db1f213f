"""The options of reads and writes: their names, and Kafka's names for them."""
