"""Writes orders with Confluent's own serialisers: JSON lines on the standard input become records of a topic.

    python registry_producer.py --brokers HOST:PORT --registry URL --topic TOPIC --schema FILE --format avro < orders.jsonl
"""

import argparse
import json
import sys

from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext


def main():
    parser = argparse.ArgumentParser()
    for name in ("brokers", "registry", "topic", "schema", "format"):
        parser.add_argument(f"--{name}", required=True)
    arguments = parser.parse_args()
    registry = SchemaRegistryClient({"url": arguments.registry})
    with open(arguments.schema, encoding="utf-8") as file:
        schema = file.read()
    if arguments.format == "avro":
        serialise = AvroSerializer(registry, schema)
    else:
        serialise = JSONSerializer(schema, registry)
    producer = Producer({"bootstrap.servers": arguments.brokers})
    context = SerializationContext(arguments.topic, MessageField.VALUE)
    for line in sys.stdin:
        producer.produce(arguments.topic, value=serialise(json.loads(line), context), partition=0)
        producer.poll(0)
    left = producer.flush(60)
    if left:
        raise SystemExit(f"{left} records were not delivered")


main()
