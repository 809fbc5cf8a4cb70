"""Values by the schemas of a registry: Avro, Protobuf and JSON, without Spark.

Needs the packages of the extra `formats` but for Spark: fastavro, protobuf, and Confluent's client
of the registry.
"""
