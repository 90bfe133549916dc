"""Times encoders of imported bundles against onnxruntime: batches of 256, one thread each, in turns.

    python scripts/compare_onnx.py OSTARD ONNX_BENCH [--rounds 5] [--seconds 2]
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

BATCH = 256
CLASSES = 10


def linear(name, inputs, outputs, random):
    weight = random.normal(0, inputs**-0.5, (inputs, outputs)).astype("f4")
    bias = random.normal(0, 0.1, outputs).astype("f4")
    return [numpy_helper.from_array(weight, f"{name}.weight"), numpy_helper.from_array(bias, f"{name}.bias")]


def mlp(random):
    """64-256-128-64, and a head."""
    nodes, constants, at = [], [], "x"
    widths = [64, 256, 128, 64, CLASSES]
    for number, (inputs, outputs) in enumerate(zip(widths, widths[1:], strict=False)):
        name = f"fc{number}"
        constants += linear(name, inputs, outputs, random)
        nodes.append(helper.make_node("Gemm", [at, f"{name}.weight", f"{name}.bias"], [f"{name}.out"]))
        at = f"{name}.out"
        if number < len(widths) - 2:
            nodes.append(helper.make_node("Relu", [at], [f"{name}.relu"]))
            at = f"{name}.relu"
    return model(nodes, constants, [64], at)


def cnn(random):
    """Two convolutions of 3x3 with pooling on images of 1x28x28, a hidden layer of 64, and a head."""
    nodes, constants, at = [], [], "x"
    for number, (inputs, outputs) in enumerate([(1, 16), (16, 32)]):
        weight = random.normal(0, (9 * inputs) ** -0.5, (outputs, inputs, 3, 3)).astype("f4")
        constants.append(numpy_helper.from_array(weight, f"conv{number}.weight"))
        constants.append(numpy_helper.from_array(numpy.zeros(outputs, "f4"), f"conv{number}.bias"))
        parameters = [at, f"conv{number}.weight", f"conv{number}.bias"]
        nodes.append(helper.make_node("Conv", parameters, [f"conv{number}"], pads=[1, 1, 1, 1], kernel_shape=[3, 3]))
        nodes.append(helper.make_node("Relu", [f"conv{number}"], [f"relu{number}"]))
        nodes.append(helper.make_node("MaxPool", [f"relu{number}"], [f"pool{number}"], kernel_shape=[2, 2], strides=[2, 2]))
        at = f"pool{number}"
    nodes.append(helper.make_node("Flatten", [at], ["flat"], axis=1))
    constants += linear("fc", 32 * 7 * 7, 64, random) + linear("head", 64, CLASSES, random)
    nodes.append(helper.make_node("Gemm", ["flat", "fc.weight", "fc.bias"], ["fc.out"]))
    nodes.append(helper.make_node("Relu", ["fc.out"], ["fc.relu"]))
    nodes.append(helper.make_node("Gemm", ["fc.relu", "head.weight", "head.bias"], ["logits"]))
    return model(nodes, constants, [1, 28, 28], "logits")


def model(nodes, constants, sizes, output):
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", *sizes])]
    outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["batch", CLASSES])]
    graph = helper.make_graph(nodes, "model", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), sizes


def import_model(ostard, folder, exported, width, random):
    folder.mkdir()
    (folder / "model.onnx").write_bytes(exported.SerializeToString())
    rows = random.normal(size=(200, width)).astype("f4").tolist()
    lines = [json.dumps({"dense": row, "label": number % CLASSES}) for number, row in enumerate(rows)]
    (folder / "labelled.jsonl").write_text("\n".join(lines) + "\n")
    command = [ostard, "import", "--onnx", folder / "model.onnx", "--data", folder / "labelled.jsonl", "--out", folder / "bundle"]
    command += ["--classes", ",".join(map(str, range(CLASSES)))]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def peer(session, batch, seconds):
    """Median time of onnxruntime in microseconds."""
    name, times = session.get_inputs()[0].name, []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 10:
        start = time.perf_counter()
        session.run(None, {name: batch})
        times.append((time.perf_counter() - start) * 1e6)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ostard")
    parser.add_argument("bench")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    arguments = parser.parse_args()
    random = numpy.random.default_rng(0)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    with tempfile.TemporaryDirectory() as work:
        for make in (mlp, cnn):
            exported, sizes = make(random)
            width = int(numpy.prod(sizes))
            folder = pathlib.Path(work) / make.__name__
            import_model(arguments.ostard, folder, exported, width, random)
            encoder = str(folder / "bundle/encoder.onnx")
            session = onnxruntime.InferenceSession(encoder, options, providers=["CPUExecutionProvider"])
            batch = random.normal(size=(BATCH, *sizes)).astype("f4")
            ours, theirs = [], []
            for _ in range(arguments.rounds):
                theirs.append(peer(session, batch, arguments.seconds))
                command = [arguments.bench, folder / "bundle", str(BATCH), str(arguments.seconds)]
                ours.append(float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout))
            ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
            print(f"{make.__name__}: microseconds for a batch of {BATCH}, one thread, by round")
            print(f"  onnxruntime {[round(each) for each in theirs]}, median {statistics.median(theirs):.0f}")
            print(f"  ostard      {[round(each) for each in ours]}, median {statistics.median(ours):.0f}")
            print(f"  ratio       {[round(each, 2) for each in ratios]}, median {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
