"""Checks a backtest of an imported bundle: with a latent steps were taken, with a black box there are none.

    python check_adaptation.py digits
"""

import json
import pathlib
import re
import sys


def main():
    folder = pathlib.Path(sys.argv[1])
    has_latent = "model" in json.loads((folder / "bundle/bundle.json").read_text())
    last = json.loads((folder / "report/report.json").read_text())["moments"][-1]
    accuracies = {name: round(value, 4) for name, value in last["accuracies"].items() if value is not None}
    print(f"{folder}: after {last['events']} shifted events, accuracy in the last block {accuracies}")
    # Rows of the table begin with events and steps. The guard may refuse what was learned; steps it cannot undo.
    steps = max(int(row[2]) for row in re.finditer(r"^ *(\d+) +(\d+) ", (folder / "report/report.txt").read_text(), re.MULTILINE))
    if (steps > 0) != has_latent:
        raise SystemExit(f"{steps} steps were taken, expected {'some' if has_latent else 'none'}")


if __name__ == "__main__":
    main()
