"""Writes orders with Confluent's own serialisers: JSON lines on the standard input become records of a topic.

    python registry_producer.py --brokers HOST:PORT --registry URL --topic TOPIC --schema FILE --format avro < orders.jsonl

The schema of Protobuf is a file with a descriptor set, whose last message of the last file is written.
"""

import argparse
import json
import sys

from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext


def protobuf(file, registry):
    from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
    from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

    with open(file, "rb") as opened:
        files = descriptor_pb2.FileDescriptorSet.FromString(opened.read()).file
    pool = descriptor_pool.DescriptorPool()
    for each in files:
        pool.Add(each)
    name = f"{files[-1].package}.{files[-1].message_type[-1].name}"
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    serialise = ProtobufSerializer(message, registry, {"use.deprecated.format": False})
    return lambda order, context: serialise(json_format.ParseDict(order, message()), context)


def text(file):
    with open(file, encoding="utf-8") as opened:
        return opened.read()


def main():
    parser = argparse.ArgumentParser()
    for name in ("brokers", "registry", "topic", "schema", "format"):
        parser.add_argument(f"--{name}", required=True)
    arguments = parser.parse_args()
    registry = SchemaRegistryClient({"url": arguments.registry})
    if arguments.format == "avro":
        serialise = AvroSerializer(registry, text(arguments.schema))
    elif arguments.format == "protobuf":
        serialise = protobuf(arguments.schema, registry)
    else:
        serialise = JSONSerializer(text(arguments.schema), registry)
    producer = Producer({"bootstrap.servers": arguments.brokers})
    context = SerializationContext(arguments.topic, MessageField.VALUE)
    for line in sys.stdin:
        producer.produce(arguments.topic, value=serialise(json.loads(line), context), partition=0)
        producer.poll(0)
    left = producer.flush(60)
    if left:
        raise SystemExit(f"{left} records were not delivered")


main()
