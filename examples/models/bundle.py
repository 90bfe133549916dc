"""Writes a model bundle, the folder that `ostard run --bundle` takes. Needs numpy and safetensors; copy it freely.

docs/BUNDLES.md describes the files.
"""

import json
import pathlib

import numpy
from safetensors.numpy import save_file


def write_network(folder, *, name, classes, input, encoder, classifier, weights, source, training_proportions):
    """A bundle of a classifier whose layers are known: g (the encoder) and f_S (the classifier on g's output).

    `weights` has g's layers as `g.fc1.weight` ([out, in]), `g.fc1.bias`, `g.fc2.weight` ... and f_S's as
    `f_s.fc1.weight` ... `source` is (latents, labels, held_out): g's output for labelled rows, their class numbers,
    and which rows the model was not trained on.
    """
    latents, labels, held_out = source
    latents = numpy.asarray(latents, numpy.float32)
    deviation = latents.std(axis=0, dtype=numpy.float64)
    description = {
        "format_version": 1,
        "name": name,
        "classes": list(classes),
        "input": input,
        "model": {
            "latent": latents.shape[1],
            "encoder": encoder,
            "classifier": classifier,
            "standardisation": {
                "mean": latents.mean(axis=0, dtype=numpy.float64).tolist(),
                # A constant latent has no scale: avoid division by 0.
                "deviation": numpy.where(deviation > 1e-6, deviation, 1.0).tolist(),
            },
        },
        "training_proportions": proportions(training_proportions),
    }
    weights = {key: numpy.ascontiguousarray(value, numpy.float32) for key, value in weights.items()}
    write(folder, description, {"latents": latents}, labels, held_out, weights)


def write_black_box(folder, *, name, classes, probabilities, labels, training_proportions):
    """A bundle of a model that only returns probabilities, given here for rows that it was not trained on."""
    description = {
        "format_version": 1,
        "name": name,
        "classes": list(classes),
        "input": "probabilities",
        "training_proportions": proportions(training_proportions),
    }
    probabilities = numpy.asarray(probabilities, numpy.float32)
    write(folder, description, {"probabilities": probabilities}, labels, numpy.ones(len(labels)), None)


def proportions(counts):
    """Counts or shares of the classes in the training data, scaled to sum to 1: the model's prior."""
    counts = numpy.asarray(counts, numpy.float64)
    return (counts / counts.sum()).tolist()


def write(folder, description, rows, labels, held_out, weights):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    marks = {"labels": labels, "held_out": held_out}
    marks = {key: numpy.asarray(value).astype(numpy.float32) for key, value in marks.items()}
    save_file(rows | marks, folder / "source.safetensors")
    if weights is not None:
        save_file(weights, folder / "weights.safetensors")
    # Written last: a folder without bundle.json is not a bundle yet.
    (folder / "bundle.json").write_text(json.dumps(description, indent=2) + "\n")


def write_events(folder, input, rows, probabilities):
    """Events for `ostard predict`, and the original model's predictions for them."""
    folder = pathlib.Path(folder)
    for name, key, values in [("events.jsonl", input, rows), ("expected.jsonl", "probabilities", probabilities)]:
        lines = [json.dumps({"id": number, key: value}) for number, value in enumerate(numpy.asarray(values).tolist())]
        (folder / name).write_text("\n".join(lines) + "\n")
