"""Kafka: sink, consumer, schema registry and dead letters."""
