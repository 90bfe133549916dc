"""Prepares MLServer with the network of a bundle, and the same request for both servers.

prepare: writes a folder that `mlserver start` takes, and the request for each server as bytes.
compare: asks both servers, and fails if their probabilities differ.
"""

import argparse
import json
import pathlib

import grpc
import joblib
import numpy as np
from mlserver.grpc import dataplane_pb2 as messages
from mlserver.grpc import dataplane_pb2_grpc as services
from safetensors.numpy import load_file
from sklearn.neural_network import MLPClassifier

MODEL = "model"
OUTPUTS = {"ostard": "probabilities", "mlserver": "predict_proba"}


def network(bundle):
    """The layers of the frozen model."""
    description = json.loads((bundle / "bundle.json").read_text())
    tensors = load_file(bundle / "weights.safetensors")
    layers = range(1, len(description["model"]["classifier"]["hidden"]) + 2)
    weights = [tensors[f"f_s.fc{layer}.weight"].T for layer in layers]
    biases = [tensors[f"f_s.fc{layer}.bias"] for layer in layers]
    classes = len(description["classes"])
    hidden = tuple(len(bias) for bias in biases[:-1])
    model = MLPClassifier(hidden_layer_sizes=hidden)
    # scikit-learn learns the shapes by fitting; the weights are replaced afterwards.
    rows = np.zeros((classes, len(weights[0])), dtype=np.float32)
    model.partial_fit(rows, np.arange(classes), classes=np.arange(classes))
    model.coefs_, model.intercepts_ = weights, biases
    return model


def request(server, row):
    features = {"name": "features", "datatype": "FP32", "shape": [1, len(row)]}
    return messages.ModelInferRequest(
        model_name=MODEL,
        inputs=[features],
        outputs=[{"name": OUTPUTS[server]}],
        raw_input_contents=[row.tobytes()],
    )


def prepare(arguments):
    model = network(arguments.bundle)
    arguments.out.mkdir()
    joblib.dump(model, arguments.out / "model.joblib")
    write = lambda name, value: (arguments.out / name).write_text(json.dumps(value))
    write(
        "model-settings.json",
        {
            "name": MODEL,
            "implementation": "mlserver_sklearn.SKLearnModel",
            "parameters": {"uri": "./model.joblib"},
        },
    )
    write(
        "settings.json",
        {
            "debug": False,
            "host": "127.0.0.1",
            "parallel_workers": arguments.workers,
            "http_port": arguments.ports[0],
            "grpc_port": arguments.ports[1],
            "metrics_port": arguments.ports[2],
        },
    )
    row = np.random.default_rng(1).normal(size=model.n_features_in_).astype(np.float32)
    for server in OUTPUTS:
        path = arguments.out / f"{server}.request"
        path.write_bytes(request(server, row).SerializeToString())


def compare(arguments):
    answers = []
    for server, address in [("ostard", arguments.ostard), ("mlserver", arguments.mlserver)]:
        asked = messages.ModelInferRequest.FromString((arguments.out / f"{server}.request").read_bytes())
        with grpc.insecure_channel(address) as channel:
            answer = services.GRPCInferenceServiceStub(channel).ModelInfer(asked, timeout=30)
        kind = {"FP32": np.float32, "FP64": np.float64}[answer.outputs[0].datatype]
        answers.append(np.frombuffer(answer.raw_output_contents[0], dtype=kind))
    difference = float(np.abs(answers[0] - answers[1]).max())
    assert difference < 1e-5, answers
    print(f"largest difference of a probability {difference:.1e}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    commands = parser.add_subparsers(required=True)
    preparing = commands.add_parser("prepare")
    preparing.set_defaults(run=prepare)
    preparing.add_argument("--bundle", required=True, type=pathlib.Path)
    preparing.add_argument("--ports", required=True, type=int, nargs=3)
    preparing.add_argument("--workers", required=True, type=int)
    comparing = commands.add_parser("compare")
    comparing.set_defaults(run=compare)
    comparing.add_argument("--ostard", required=True)
    comparing.add_argument("--mlserver", required=True)
    arguments = parser.parse_args()
    arguments.run(arguments)


main()
