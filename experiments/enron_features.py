"""Enron-Spam as dense features for `experiments/examples/mail.rs`.

    python3 experiments/enron_features.py enron_spam.npz mail.safetensors

Needs numpy and safetensors from PyPI. The input is a bag of words in CSR form: `indptr`, `indices` and `counts` of 4,096 hashed
words a mail, `y` (1 = spam) and `domain` (0 to 5, the inboxes enron1 to enron6). The output holds, for each inbox,
`features.N` (log(1 + count) of 1,024 words: a hash modulo 4,096 folds exactly) and `labels.N`.
"""

import sys

import numpy as np
from safetensors.numpy import save_file

WORDS = 1024


def main(source, destination):
    data = np.load(source)
    rows = len(data["y"])
    features = np.zeros((rows, WORDS), dtype=np.float32)
    row_of_word = np.repeat(np.arange(rows), np.diff(data["indptr"].astype(np.int64)))
    np.add.at(features, (row_of_word, data["indices"] % WORDS), data["counts"])
    np.log1p(features, out=features)
    tensors = {}
    for inbox in range(6):
        of_inbox = data["domain"] == inbox
        tensors[f"features.{inbox + 1}"] = features[of_inbox]
        tensors[f"labels.{inbox + 1}"] = data["y"][of_inbox].astype(np.float32)
    save_file(tensors, destination)


if __name__ == "__main__":
    main(*sys.argv[1:])
