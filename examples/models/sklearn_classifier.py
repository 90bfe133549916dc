"""Exports a scikit-learn classifier: a pipeline of StandardScaler and MLPClassifier or LogisticRegression.

    python sklearn_classifier.py --out digits
"""

import argparse

import numpy
from bundle import write_events, write_network
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def layers(pipeline):
    """(weight [out, in], bias) of every layer, on raw features and with one logit per class."""
    scaler, model = (step for _, step in pipeline.steps)
    if isinstance(model, LogisticRegression):
        found = [(model.coef_, model.intercept_)]
    elif model.activation == "relu":
        found = [(weight.T, bias) for weight, bias in zip(model.coefs_, model.intercepts_)]
    else:
        raise SystemExit(f"activation is {model.activation!r}, expected 'relu'")
    # Fold the scaler, (x - mean) / scale, into the first layer.
    weight, bias = found[0]
    weight = weight / scaler.scale_
    found[0] = (weight, bias - weight @ scaler.mean_)
    # With two classes scikit-learn keeps only the logit of the second: add a 0 for the first.
    weight, bias = found[-1]
    if len(bias) == 1:
        found[-1] = (numpy.vstack([0 * weight, weight]), numpy.append(0 * bias, bias))
    return found


def export(pipeline, folder, name, features, labels, held_out):
    """Writes a fitted pipeline. `features` are labelled rows; `held_out` marks those it was not fitted on."""
    classes = [str(label) for label in pipeline.classes_]
    numbers = numpy.searchsorted(pipeline.classes_, labels)
    *hidden, last = layers(pipeline)
    # The output layer is f_S, everything before it is g.
    latents, weights = features, {"f_s.fc1.weight": last[0], "f_s.fc1.bias": last[1]}
    for number, (weight, bias) in enumerate(hidden, 1):
        latents = numpy.maximum(latents @ weight.T + bias, 0)
        weights |= {f"g.fc{number}.weight": weight, f"g.fc{number}.bias": bias}
    if hidden:
        input = {"dense": {"width": features.shape[1]}}
        widths = [len(bias) for _, bias in hidden[:-1]]
        encoder = {"mlp": {"inputs": features.shape[1], "hidden": widths, "final_relu": True}}
    else:
        # No hidden layer: the features themselves are the latents.
        input, encoder = {"latent": {"width": features.shape[1]}}, "identity"
    write_network(
        f"{folder}/bundle",
        name=name,
        classes=classes,
        input=input,
        encoder=encoder,
        classifier={"hidden": [], "norm": "none", "dropout": 0.0},
        weights=weights,
        source=(latents, numbers, held_out),
        training_proportions=numpy.bincount(numbers[~held_out]),
    )
    tried = features[held_out]
    write_events(folder, next(iter(input)), tried, pipeline.predict_proba(tried))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True)
    parser.add_argument("--model", choices=["network", "regression"], default="network")
    arguments = parser.parse_args()
    if arguments.model == "network":
        features, labels = load_digits(return_X_y=True)
        model = MLPClassifier((64, 16), max_iter=500, random_state=0)
    else:
        features, labels = load_breast_cancer(return_X_y=True)
        model = LogisticRegression(max_iter=1000)
    held_out = numpy.zeros(len(labels), bool)
    held_out[train_test_split(range(len(labels)), test_size=0.2, stratify=labels, random_state=0)[1]] = True
    pipeline = make_pipeline(StandardScaler(), model).fit(features[~held_out], labels[~held_out])
    export(pipeline, arguments.out, f"sklearn-{arguments.model}", features, labels, held_out)
    print(f"held-out accuracy {pipeline.score(features[held_out], labels[held_out]):.4f}")


if __name__ == "__main__":
    main()
