"""Sends requests to a daemon with tritonclient, over gRPC and HTTP.

Prints what it got as a JSON object: metadata, probabilities by the way they came, and errors by the mistake.
"""

import argparse
import json

import numpy as np
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

MODEL = "model"


def tensor(client, data, name="features", datatype=None, shape=None):
    made = client.InferInput(name, list(data.shape), datatype or np_to_triton_dtype(data.dtype))
    made.set_data_from_numpy(data)
    # The client checks its arguments; these mistakes are made after its checks.
    if shape is not None:
        made.set_shape(shape)
    return made


def predict(library, client, rows, binary=None):
    asked = tensor(library, rows)
    outputs = None
    if binary is not None:
        asked.set_data_from_numpy(rows, binary_data=binary)
        names = [output["name"] for output in client.get_model_metadata(MODEL)["outputs"]]
        outputs = [library.InferRequestedOutput(name, binary_data=binary) for name in names]
    answer = client.infer(MODEL, [asked], outputs=outputs, request_id="seven")
    response = answer.get_response(as_json=True) if library is tritonclient.grpc else answer.get_response()
    assert response["id"] == "seven", response
    probabilities = answer.as_numpy("probabilities")
    for name in ["frozen_probabilities", "prior_probabilities", "adapted_probabilities"]:
        assert answer.as_numpy(name).shape == probabilities.shape, name
    classes = answer.as_numpy("class")
    assert (classes == probabilities.argmax(axis=1)).all(), classes
    assert len(answer.as_numpy("class_name")) == len(rows)
    assert abs(answer.as_numpy("label_proportions").sum() - 1) < 1e-9
    return probabilities.tolist()


def mistakes(library, client, rows):
    """Error messages by mistake. The server must refuse every one of them."""

    def refusal(*inputs, model=MODEL, version=""):
        try:
            client.infer(model, list(inputs), model_version=version)
        except InferenceServerException as error:
            return f"{error.status()}: {error.message()}"
        raise AssertionError("was answered")

    good = tensor(library, rows)
    width = rows.shape[1]
    return {
        "wrong shape": refusal(tensor(library, rows[:, 1:])),
        "wrong type": refusal(tensor(library, rows.astype(np.int32))),
        "text": refusal(tensor(library, rows.astype(str).astype(object))),
        "unknown model": refusal(good, model="nobody"),
        "unknown version": refusal(good, version="0.999"),
        "empty batch": refusal(tensor(library, rows[:0])),
        "overflow": refusal(tensor(library, rows, shape=[2**62, width])),
        "negative": refusal(tensor(library, rows, shape=[-1, width])),
    }


def ask(library, client, rows):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready(MODEL)
    as_json = {"as_json": True} if library is tritonclient.grpc else {}
    return {
        "server": client.get_server_metadata(**as_json),
        "model": client.get_model_metadata(MODEL, **as_json),
        "mistakes": mistakes(library, client, rows),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--grpc", required=True)
    parser.add_argument("--http", required=True)
    parser.add_argument("--rows", required=True, type=json.loads)
    arguments = parser.parse_args()
    rows = np.array(arguments.rows, dtype=np.float32)
    grpc = tritonclient.grpc.InferenceServerClient(arguments.grpc)
    http = tritonclient.http.InferenceServerClient(arguments.http)
    told = {
        "grpc": ask(tritonclient.grpc, grpc, rows),
        "http": ask(tritonclient.http, http, rows),
        # The server still answers after the mistakes.
        "predictions": {
            "grpc": predict(tritonclient.grpc, grpc, rows),
            "http": predict(tritonclient.http, http, rows),
            "http binary": predict(tritonclient.http, http, rows, binary=True),
            "http json": predict(tritonclient.http, http, rows, binary=False),
        },
    }
    print(json.dumps(told))


main()
