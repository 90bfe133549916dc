"""Trains a small PyTorch classifier, exports it as ONNX, and writes what `ostard import` takes; see onnx_models.py.

    python onnx_pytorch.py --model cnn --out cnn
    ostard import --onnx cnn/model.onnx --data cnn/labelled.jsonl --classes 0,1,2,3,4,5,6,7,8,9 --out cnn/bundle

A PyTorch model has no names for its outputs: `--classes` gives them in their order.
"""

import argparse
import io

import numpy
import torch
from onnx_models import write
from torch import nn


class Embeddings(nn.Module):
    """Numbers beside embedded categories: two inputs."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(20, 8), nn.Embedding(5, 4)])
        self.layers = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 3))

    def forward(self, numbers, categories):
        embedded = [table(categories[:, place]) for place, table in enumerate(self.tables)]
        return self.layers(torch.cat([numbers, *embedded], dim=1))


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2),
        )  # fmt: skip
        self.head = nn.Sequential(nn.Linear(128, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 10))

    def forward(self, images):
        return torch.softmax(self.head(self.features(images).flatten(1)), dim=1)


class Transformer(nn.Module):
    """Tokens, positions, two encoder layers, the mean of what they give."""

    def __init__(self, tokens=50, length=16, width=32):
        super().__init__()
        self.tokens = nn.Embedding(tokens, width)
        self.positions = nn.Parameter(0.1 * torch.randn(1, length, width))
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 2)

    def forward(self, tokens):
        return self.head(self.encoder(self.tokens(tokens) + self.positions).mean(dim=1))


def embeddings():
    random = numpy.random.default_rng(0)
    count = 4_000
    numbers = random.normal(size=(count, 4)).astype("f4")
    categories = numpy.stack([random.integers(0, 20, count), random.integers(0, 5, count)], axis=1)
    score = numbers[:, 0] + (categories[:, 0] % 3 - 1) + 0.5 * categories[:, 1] - 1 + random.normal(0, 0.3, count)
    labels = numpy.digitize(score, [-0.5, 0.8])
    inputs = (torch.tensor(numbers), torch.tensor(categories))
    return Embeddings(), inputs, labels, numpy.concatenate([numbers, categories], axis=1)


def cnn():
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype("f4")
    return Convolutions(), (torch.tensor(images.reshape(-1, 1, 8, 8)),), labels, images


def transformer():
    random = numpy.random.default_rng(0)
    tokens = random.integers(0, 50, (4_000, 16))
    labels = ((tokens < 10).sum(axis=1) > (tokens >= 40).sum(axis=1)).astype(int)
    return Transformer(), (torch.tensor(tokens),), labels, tokens.astype("f4")


def train(model, inputs, labels, steps=300):
    torch.manual_seed(0)
    labels = torch.tensor(labels)
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(steps):
        batch = torch.randint(0, len(labels) // 2, (128,))
        output = model(*(each[batch] for each in inputs))
        logarithms = output.log() if isinstance(model, Convolutions) else output.log_softmax(dim=1)
        loss = nn.functional.nll_loss(logarithms, labels[batch])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model.eval()


def export(model, inputs):
    example = tuple(each[:4] for each in inputs)
    file = io.BytesIO()
    batch = torch.export.Dim("batch")
    program = torch.onnx.export(
        model, example, dynamo=True, external_data=False, dynamic_shapes=[{0: batch} for _ in example], verbose=False
    )
    program.save(file, external_data=False)
    return file.getvalue()


MODELS = {"embeddings": embeddings, "cnn": cnn, "transformer": transformer}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    model, inputs, labels, rows = MODELS[arguments.model]()
    train(model, inputs, labels)
    half = len(labels) // 2
    # Inputs of whole numbers are categories; the last input is one, or none is.
    integers = inputs[-1].shape[1] if inputs[-1].dtype == torch.int64 else 0
    categories = range(rows.shape[1] - integers, rows.shape[1])
    write(arguments.out, export(model, inputs), (rows[half:], labels[half:]), categories)


if __name__ == "__main__":
    main()
