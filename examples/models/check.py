"""Starts the daemon on an exported model and compares its predictions with the original's.

    python check.py digits

The variable `OSTARD` names the program; the default is `ostard`. No broker is needed: without one the daemon serves the frozen model.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import tempfile

LIMIT = 1e-5


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path, help="what an export wrote")
    folder = parser.parse_args().folder
    program = os.environ.get("OSTARD", "ostard")
    with tempfile.TemporaryDirectory() as state, start(program, folder / "bundle", state) as daemon:
        try:
            address = grpc_address(daemon)
            command = [program, "predict", "--address", address, "--mode", "frozen", "--batch", "100"]
            command.append(folder / "events.jsonl")
            answered = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        finally:
            daemon.terminate()
    compare(folder, lines(answered.stdout), lines((folder / "expected.jsonl").read_text()))


def start(program, bundle, state):
    settings = {
        "bundle.path": bundle,
        "checkpoints.folder": state,
        "kafka.topic": "events",
        # No broker listens there.
        "kafka.brokers": "127.0.0.1:1",
        "grpc.listen": "127.0.0.1:0",
        "http.listen": "127.0.0.1:0",
        "log.format": "json",
    }
    flags = [f"--set={key}={value}" for key, value in settings.items()]
    return subprocess.Popen([program, "run", *flags], stderr=subprocess.PIPE, text=True)


def grpc_address(daemon):
    """The gRPC address from the daemon's log."""
    for line in daemon.stderr:
        found = re.search(r'"grpc_address":"([^"]+)"', line)
        if found:
            return found[1]
        # Other lines are errors of a failed start: pass them on.
        if not line.startswith("{"):
            print(line, end="")
    raise SystemExit("the daemon ended before it was listening")


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def compare(folder, answers, expected):
    if [each["id"] for each in answers] != [each["id"] for each in expected]:
        raise SystemExit(f"{folder}: {len(answers)} answers to {len(expected)} events, expected one each, in order")
    differences = [
        abs(mine - theirs)
        for answer, original in zip(answers, expected, strict=True)
        for mine, theirs in zip(answer["probabilities"], original["probabilities"], strict=True)
    ]
    largest = max(differences)
    print(f"{folder}: {len(answers)} predictions, largest difference {largest:.1e}")
    if not largest <= LIMIT:
        raise SystemExit(f"expected at most {LIMIT}")


if __name__ == "__main__":
    main()
