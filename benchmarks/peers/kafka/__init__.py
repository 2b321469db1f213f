"""Kafka: a broker from Maven's jars, with its own Java client or with confluent-kafka."""
