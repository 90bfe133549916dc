"""Checks that the forge's CI runs exactly the recipes of .ci/run, and those that take too long there."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORKFLOW = ".github/workflows/ci.yaml"
# Compiling cargo-deny takes ten minutes; the forge keeps it between runs.
FORGE_ALONE = {"deny"}
# .ci/run calls these with cargo instead of make, because the documents do.
BY_CARGO = {"test": "cargo test", "demo": "cargo run --release -- demo"}


def main():
    run = (ROOT / ".ci" / "run").read_text()
    wanted = set(re.findall(r"^section make (\S+)$", run, re.MULTILINE))
    wanted |= FORGE_ALONE
    wanted |= {recipe for recipe, command in BY_CARGO.items() if re.search(rf"^section {command}( |$)", run, re.MULTILINE)}
    matrix = re.search(r"^ +recipe:\n((?: +- \S+\n)+)", (ROOT / WORKFLOW).read_text(), re.MULTILINE)[1]
    found = set(re.findall(r"- (\S+)", matrix))
    for recipe in sorted(wanted - found):
        print(f"{WORKFLOW} does not run {recipe}, which .ci/run does")
    for recipe in sorted(found - wanted):
        print(f"{WORKFLOW} runs {recipe}, which .ci/run does not")
    sys.exit(wanted != found)


main()
