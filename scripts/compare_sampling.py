"""Compares what is learned from every event with what is learned from one in twenty, as scorers pass events on.

    python3 scripts/compare_sampling.py OSTARD [enron_spam.jsonl.gz]

OSTARD is the program. Streams: the demo's, and with the file of mails three more, each resampled to twenty times its rate. Each
is replayed whole and sampled by `ostard backtest`. After every block of the sampled replay its state is compared with the whole
one's at the same place in the stream: whether the sampled interval of each share holds the whole replay's estimate, whether the two
intervals overlap, and whether mode auto serves the same candidate.
"""

import gzip
import hashlib
import json
import pathlib
import random
import subprocess
import sys
import tempfile

EVERY = 20
SECONDS = 600
MAILS = 6_000
WORDS = 60


def sampled(number):
    """Uniform and fixed for each event, as in a scorer."""
    digest = hashlib.blake2b(number.to_bytes(8, "little"), digest_size=8).digest()
    return int.from_bytes(digest, "little") < 2**64 // EVERY


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"


def replay(program, bundle, lines, folder, name):
    data, out = folder / f"{name}.jsonl", folder / name
    data.write_text("".join(lines))
    run(program, "backtest", "--bundle", bundle, "--data", data, "--label", "label", "--mode", "auto", "--out", out)
    data.unlink()
    moments = json.loads((out / "report.json").read_text())["moments"]
    return [moment for moment in moments if moment["served"]]


def compare(program, bundle, lines, folder, name):
    whole = replay(program, bundle, lines, folder, "whole")
    part = replay(program, bundle, [line for number, line in enumerate(lines) if sampled(number)], folder, "sampled")
    counts = {"blocks": 0, "shares": 0, "held": 0, "overlap": 0, "same": 0, "known": 0}
    distance = 0.0
    for moment in part:
        place = moment["events"] * EVERY
        other = min(whole, key=lambda one: abs(one["events"] - place))
        counts["blocks"] += 1
        counts["same"] += moment["candidate"] == other["candidate"]
        ours, theirs = moment["served"], other["served"]
        counts["known"] += ours["known"] and theirs["known"]
        for share, interval, peer, peers in zip(
            ours["proportions"], ours["intervals"], theirs["proportions"], theirs["intervals"], strict=True
        ):
            counts["shares"] += 1
            counts["held"] += interval["low"] <= peer <= interval["high"]
            counts["overlap"] += interval["low"] <= peers["high"] and peers["low"] <= interval["high"]
            distance += abs(share - peer)
    shares, blocks = counts["shares"], counts["blocks"]
    print(
        f"{name}: {len(lines)} events, {blocks} blocks of samples; the sampled interval holds the whole estimate in "
        f"{counts['held']} of {shares}, intervals overlap in {counts['overlap']}, mean distance {distance / shares:.3f}; "
        f"the same candidate after {counts['same']} of {blocks} blocks, shares known to both after {counts['known']}",
        flush=True,
    )


def demo(program, folder):
    run(program, "demo", "--export", folder / "demo", "--seconds", SECONDS)
    lines = (folder / "demo" / "stream.jsonl").read_text().splitlines(keepends=True)
    compare(program, folder / "demo" / "bundle", lines, folder, "demo")


def mails(program, folder, path):
    inboxes = {}
    with gzip.open(path, "rt") as file:
        for row in file:
            mail = json.loads(row)
            text = " ".join(mail["text"].split()[:WORDS])
            inboxes.setdefault(mail["domain"], ([], []))[mail["y"]].append(text)
    # Trained on, streamed, share of spam in the first and in the second half; None leaves it as it is.
    streams = {
        "inbox 1, shares move": (0, 0, 0.3, 0.7),
        "inbox 1 to 4": (0, 3, None, None),
        "inbox 5 to 2": (4, 1, None, None),
    }
    for name, (source, target, *shares) in streams.items():
        generator = random.Random(name)
        own = [[(text, label) for text in texts] for label, texts in enumerate(inboxes[source])]
        for rows in own:
            generator.shuffle(rows)
        training = [row for rows in own for row in rows[: len(rows) // 2]]
        generator.shuffle(training)
        rest = [[text for text, _ in rows[len(rows) // 2 :]] for rows in own]
        pools = rest if source == target else inboxes[target]
        natural = len(pools[1]) / (len(pools[0]) + len(pools[1]))
        data, bundle = folder / "training.jsonl", folder / f"bundle-{source}-{target}"
        data.write_text("".join(line(text, label) for text, label in training))
        run(program, "fit", "--data", data, "--label", "label", "--out", bundle)
        lines = []
        for number in range(EVERY * MAILS):
            share = shares[2 * number // (EVERY * MAILS)]
            label = int(generator.random() < (natural if share is None else share))
            lines.append(line(generator.choice(pools[label]), label))
        compare(program, bundle, lines, folder, name)


def line(text, label):
    return json.dumps({"text": text, "label": ("ham", "spam")[label]}) + "\n"


def main():
    program, *path = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        demo(program, pathlib.Path(folder))
        if path:
            mails(program, pathlib.Path(folder), path[0])


main()
