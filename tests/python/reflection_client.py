"""Asks a daemon for its services, its health and a prediction, without its proto files.

Prints the prediction as a JSON object.
"""

import argparse
import json
import pathlib

import grpc
from google.protobuf import descriptor_pool, json_format, message_factory
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

TIMEOUT_SECONDS = 30
SERVICE = "ostar.v1.Inference"


def connect(arguments):
    authority = pathlib.Path(arguments.ca).read_bytes()
    credentials = grpc.ssl_channel_credentials(root_certificates=authority)
    if arguments.token_file:
        token = pathlib.Path(arguments.token_file).read_text().strip()
        bearer = grpc.access_token_call_credentials(token)
        credentials = grpc.composite_channel_credentials(credentials, bearer)
    return grpc.secure_channel(arguments.address, credentials)


def check_health(channel):
    stub = health_pb2_grpc.HealthStub(channel)
    for service in ["", SERVICE]:
        request = health_pb2.HealthCheckRequest(service=service)
        status = stub.Check(request, timeout=TIMEOUT_SECONDS).status
        assert status == health_pb2.HealthCheckResponse.SERVING, (service, status)


def predict(channel, latent):
    database = ProtoReflectionDescriptorDatabase(channel)
    services = database.get_services()
    assert SERVICE in services, services
    pool = descriptor_pool.DescriptorPool(database)
    method = pool.FindServiceByName(SERVICE).FindMethodByName("Predict")
    request_type = message_factory.GetMessageClass(method.input_type)
    response_type = message_factory.GetMessageClass(method.output_type)
    request = json_format.ParseDict(
        {"inputs": [{"latent": {"values": latent}}]}, request_type()
    )
    call = channel.unary_unary(
        f"/{SERVICE}/{method.name}",
        request_serializer=request_type.SerializeToString,
        response_deserializer=response_type.FromString,
    )
    return call(request, timeout=TIMEOUT_SECONDS)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", required=True)
    parser.add_argument("--ca", required=True)
    parser.add_argument("--token-file")
    parser.add_argument("--latent", required=True, type=json.loads)
    arguments = parser.parse_args()
    with connect(arguments) as channel:
        check_health(channel)
        response = predict(channel, arguments.latent)
    print(json.dumps(json_format.MessageToDict(response)))


main()
