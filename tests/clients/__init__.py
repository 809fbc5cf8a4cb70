"""Foreign clients against a served broker: librdkafka, kafka-python, aiokafka."""
