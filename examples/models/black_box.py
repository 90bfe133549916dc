"""Exports a model that only returns probabilities: here a random forest, but it can be anything.

    python black_box.py --out forest
"""

import argparse

import numpy
from bundle import write_black_box, write_events
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    features, labels = load_digits(return_X_y=True)
    train, test, train_labels, test_labels = train_test_split(
        features, labels, test_size=0.5, stratify=labels, random_state=0
    )
    forest = RandomForestClassifier(100, random_state=0).fit(train, train_labels)
    # The bundle only needs the model's probabilities for labelled rows that it was not trained on.
    probabilities = forest.predict_proba(test)
    write_black_box(
        f"{arguments.out}/bundle",
        name="forest",
        classes=[str(label) for label in forest.classes_],
        probabilities=probabilities,
        labels=test_labels,
        training_proportions=numpy.bincount(train_labels),
    )
    write_events(arguments.out, "probabilities", probabilities, probabilities)
    print(f"held-out accuracy {forest.score(test, test_labels):.4f}")


if __name__ == "__main__":
    main()
