"""Apache Kafka and Spark's own connector beside us; needs Maven and Maven Central once."""
