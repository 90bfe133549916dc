"""Asks several daemons for predictions at a steady rate, as a careful client would: round robin, and up to four attempts
for a request that was answered with UNAVAILABLE, none for any other status.

Runs until its standard input is closed. Prints how many requests were answered, and how many failed by status.
"""

import argparse
import collections
import json
import sys
import threading
import time

import grpc
from google.protobuf import descriptor_pool, json_format, message_factory
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

TIMEOUT_SECONDS = 30
SERVICE = "ostar.v1.Inference"
SERVICE_CONFIG = {
    "loadBalancingConfig": [{"round_robin": {}}],
    "methodConfig": [
        {
            "name": [{"service": SERVICE}],
            "retryPolicy": {
                "maxAttempts": 4,
                "initialBackoff": "0.1s",
                "maxBackoff": "1s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ],
}


def predict_method(channel):
    """The method's call and its request type, by reflection."""
    pool = descriptor_pool.DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
    method = pool.FindServiceByName(SERVICE).FindMethodByName("Predict")
    request_type = message_factory.GetMessageClass(method.input_type)
    response_type = message_factory.GetMessageClass(method.output_type)
    call = channel.unary_unary(
        f"/{SERVICE}/{method.name}",
        request_serializer=request_type.SerializeToString,
        response_deserializer=response_type.FromString,
    )
    return call, request_type


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--addresses", required=True, help="host:port, separated by commas")
    parser.add_argument("--rate", required=True, type=float, help="requests a second")
    parser.add_argument("--latent", required=True, type=json.loads)
    arguments = parser.parse_args()
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    options = [
        ("grpc.service_config", json.dumps(SERVICE_CONFIG)),
        # A list of addresses is no name of a host.
        ("grpc.default_authority", "localhost"),
    ]
    outcomes = collections.Counter()
    with grpc.insecure_channel(f"ipv4:{arguments.addresses}", options=options) as channel:
        call, request_type = predict_method(channel)
        inputs = {"inputs": [{"latent": {"values": arguments.latent}}]}
        request = json_format.ParseDict(inputs, request_type())
        print("started", flush=True)
        start, sent, waiting = time.monotonic(), 0, collections.deque()
        while not ended.is_set():
            waiting.append(call.future(request, timeout=TIMEOUT_SECONDS))
            sent += 1
            while waiting and waiting[0].done():
                outcomes[waiting.popleft().code().name] += 1
            ended.wait(max(0.0, start + sent / arguments.rate - time.monotonic()))
        for answer in waiting:
            outcomes[answer.code().name] += 1
    answered = outcomes.pop("OK", 0)
    print(json.dumps({"sent": sent, "answered": answered, "failed": outcomes}))


main()
