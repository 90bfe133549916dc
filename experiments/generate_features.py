"""Writes random features in the shape of the paper's sets that are not published with their labels.

    python3 experiments/generate_features.py DIR SET...

SET is office31, officehome or visda12; DIR/SET.npz has `x_DOMAIN` (2,048 half-precision numbers a row, 0 or more, as
behind a ReLU) and `y_DOMAIN`. Classes have means of their own, domains are shifted. They show that a loader and a protocol
work, and what an epoch costs; accuracies on them mean nothing. Needs numpy.
"""
import sys
from pathlib import Path

import numpy as np

WIDTH = 2_048
SETS = {
    "office31": (31, {"amazon": 2_817, "dslr": 498, "webcam": 795}),
    "officehome": (65, {"art": 2_427, "clipart": 4_365, "product": 4_439, "real": 4_357}),
    "visda12": (12, {"train": 152_397, "validation": 55_388}),
}


def write(folder, name):
    classes, domains = SETS[name]
    rng = np.random.default_rng(1)
    means = 0.5 * rng.standard_normal((classes, WIDTH), dtype=np.float32)
    arrays = {}
    for domain, count in domains.items():
        shift = 0.3 * rng.standard_normal(WIDTH, dtype=np.float32)
        labels = np.arange(count) % classes
        rows = np.empty((count, WIDTH), dtype=np.float16)
        for start in range(0, count, 10_000):
            part = labels[start:start + 10_000]
            noise = rng.standard_normal((len(part), WIDTH), dtype=np.float32)
            rows[start:start + 10_000] = np.maximum(means[part] + shift + noise, 0)
        arrays[f"x_{domain}"], arrays[f"y_{domain}"] = rows, labels.astype(np.uint8)
    np.savez(folder / f"{name}.npz", **arrays)


def main():
    if len(sys.argv) < 3 or any(name not in SETS for name in sys.argv[2:]):
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:]:
        write(folder, name)


if __name__ == "__main__":
    main()
