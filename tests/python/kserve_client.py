"""Sends requests to a daemon with KServe's Python client, over gRPC and REST.

Prints what it got as a JSON object: metadata, probabilities by the way they came, and errors.
"""

import argparse
import asyncio
import json
import logging
import sys

import grpc
import httpx
import numpy as np
from google.protobuf import json_format

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--grpc", required=True)
parser.add_argument("--http", required=True)
parser.add_argument("--rows", required=True, type=json.loads)
arguments = parser.parse_args()
# KServe reads the command line when it is imported.
sys.argv = sys.argv[:1]

from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest, RESTConfig
from kserve.protocol.grpc import grpc_predict_v2_pb2 as messages
from kserve.protocol.grpc import grpc_predict_v2_pb2_grpc as services

MODEL = "model"


def request(rows, binary, model=MODEL):
    features = InferInput("features", list(rows.shape), "FP32")
    features.set_data_from_numpy(rows, binary_data=binary)
    return InferRequest(model_name=model, infer_inputs=[features], request_id="seven")


def probabilities(answer):
    assert answer.id == "seven" and answer.model_name == MODEL, answer
    (found,) = [output for output in answer.outputs if output.name == "probabilities"]
    return found.as_numpy().reshape(found.shape).tolist()


async def over_grpc(address, rows, told):
    # The client has no call for metadata, but the stubs that it ships have.
    async with grpc.aio.insecure_channel(address) as channel:
        stub = services.GRPCInferenceServiceStub(channel)
        metadata = await stub.ModelMetadata(messages.ModelMetadataRequest(name=MODEL))
        told["model"] = json_format.MessageToDict(metadata)
    async with InferenceGRPCClient(address) as client:
        assert await client.is_server_live()
        assert await client.is_server_ready()
        assert await client.is_model_ready(MODEL)
        for binary in [False, True]:
            answer = await client.infer(request(rows, binary))
            told["predictions"][f"grpc, binary {binary}"] = probabilities(answer)
        try:
            await client.infer(request(rows, True, model="nobody"))
        except grpc.RpcError as error:
            told["mistakes"]["grpc"] = f"{error.code()}: {error.details()}"


async def over_rest(address, rows, told):
    async with InferenceRESTClient(RESTConfig(protocol="v2")) as client:
        assert await client.is_server_live(address)
        assert await client.is_server_ready(address)
        assert await client.is_model_ready(address, MODEL)
        for binary in [False, True]:
            answer = await client.infer(address, request(rows, binary), model_name=MODEL)
            told["predictions"][f"rest, binary {binary}"] = probabilities(answer)
        try:
            await client.infer(address, request(rows[:, 1:], False), model_name=MODEL)
        except httpx.HTTPStatusError as error:
            told["mistakes"]["rest"] = str(error)


def main():
    # The client logs the errors that it raises.
    logging.disable()
    rows = np.array(arguments.rows, dtype=np.float32)
    told = {"predictions": {}, "mistakes": {}}
    asyncio.run(over_grpc(arguments.grpc, rows, told))
    asyncio.run(over_rest(f"http://{arguments.http}", rows, told))
    print(json.dumps(told))


main()
