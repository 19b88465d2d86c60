"""Write flows to Kafka and read them: sink, consumer, schema registry and dead letters."""
