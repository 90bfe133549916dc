"""Exports a PyTorch classifier: an encoder and a head that are stacks of linear layers.

    python pytorch_classifier.py --out rings
"""

import argparse

import torch
from bundle import write_events, write_network
from torch import nn

FEATURES, CLASSES, ROWS = 20, 3, 4000


class Classifier(nn.Module):
    """`encoder` is g, `head` is f_S. Any split works; shift is measured on the latents between the two."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU(), nn.Linear(64, 16))
        self.head = nn.Sequential(
            nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, CLASSES)
        )

    def forward(self, features):
        return self.head(self.encoder(features))


def tensors(network, prefix):
    """Parameters under their names in a bundle: layers are numbered from 1, a normalisation has the number of its layer."""
    named, number = {}, 0
    for module in network:
        match module:
            case nn.Linear():
                number, kind = number + 1, "fc"
            case nn.BatchNorm1d():
                kind = "bn"
            case nn.LayerNorm():
                kind = "ln"
            case nn.ReLU() | nn.Dropout():
                continue
            case other:
                raise SystemExit(f"{other} cannot be part of a bundle; export the model as a black box")
        for name, value in module.state_dict().items():
            if name != "num_batches_tracked":
                named[f"{prefix}.{kind}{number}.{name}"] = value.numpy()
    return named


def hidden_widths(network):
    return [module.out_features for module in network if isinstance(module, nn.Linear)][:-1]


def export(model, folder, features, labels, held_out):
    model.eval()
    with torch.no_grad():
        latents = model.encoder(features)
        tried = features[held_out]
        probabilities = model(tried).softmax(dim=1)
    write_network(
        f"{folder}/bundle",
        name="rings",
        classes=["inner", "middle", "outer"],
        input={"dense": {"width": FEATURES}},
        encoder={
            "mlp": {
                "inputs": FEATURES,
                "hidden": hidden_widths(model.encoder),
                "final_relu": isinstance(model.encoder[-1], nn.ReLU),
            }
        },
        classifier={"hidden": hidden_widths(model.head), "norm": "batch", "dropout": 0.2},
        weights=tensors(model.encoder, "g") | tensors(model.head, "f_s"),
        source=(latents.numpy(), labels.numpy(), held_out.numpy()),
        training_proportions=torch.bincount(labels[~held_out]).numpy(),
    )
    write_events(folder, "dense", tried.numpy(), probabilities.numpy())


def rings():
    """Points around the origin, labelled by their distance from it."""
    labels = torch.randint(CLASSES, (ROWS,))
    directions = nn.functional.normalize(torch.randn(ROWS, FEATURES))
    radius = 1.0 + labels + 0.2 * torch.randn(ROWS)
    return directions * radius[:, None], labels


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    features, labels = rings()
    held_out = torch.arange(ROWS) % 5 == 0
    model = Classifier()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(40):
        for rows in torch.randperm(ROWS).split(100):
            rows = rows[~held_out[rows]]
            loss = nn.functional.cross_entropy(model(features[rows]), labels[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    export(model, arguments.out, features, labels, held_out)
    right = model(features[held_out]).argmax(dim=1) == labels[held_out]
    print(f"held-out accuracy {right.float().mean():.4f}")


if __name__ == "__main__":
    main()
