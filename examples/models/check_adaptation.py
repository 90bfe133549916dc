"""Checks a backtest of an imported bundle: with a latent the adapted classifier has learned, a black box has none.

    python check_adaptation.py digits
"""

import json
import pathlib
import sys


def main():
    folder = pathlib.Path(sys.argv[1])
    has_latent = "model" in json.loads((folder / "bundle/bundle.json").read_text())
    last = json.loads((folder / "report/report.json").read_text())["moments"][-1]
    accuracies = {name: round(value, 4) for name, value in last["accuracies"].items() if value is not None}
    print(f"{folder}: after {last['events']} shifted events, accuracy in the last block {accuracies}")
    # Its shares are those of the frozen classifier until a step was taken.
    learned = last["adapted"] is not None and last["adapted"] != last["frozen"]
    if learned != has_latent:
        raise SystemExit(f"adapted: {last['adapted']}, frozen: {last['frozen']}, latent: {has_latent}")


if __name__ == "__main__":
    main()
