"""Checks a backtest of an imported bundle: with a latent steps were taken, with a black box there are none.

    python check_adaptation.py digits
"""

import json
import pathlib
import sys


def main():
    folder = pathlib.Path(sys.argv[1])
    has_latent = "model" in json.loads((folder / "bundle/bundle.json").read_text())
    last = json.loads((folder / "report/report.json").read_text())["moments"][-1]
    known = [candidate for candidate in last["candidates"] if candidate["accuracy"] is not None]
    accuracies = {candidate["name"]: round(candidate["accuracy"], 4) for candidate in known}
    print(f"{folder}: after {last['events']} shifted events, accuracy in the last block {accuracies}")
    # The guard may refuse what was learned; steps it cannot undo.
    steps = last["steps"]
    if (steps > 0) != has_latent:
        raise SystemExit(f"{steps} steps were taken, expected {'some' if has_latent else 'none'}")


if __name__ == "__main__":
    main()
