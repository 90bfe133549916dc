"""Checks every Markdown file: files and headings of relative links exist, and so do source files and tests in back ticks.

Each promise of PROMISES, a numbered item under "Guarantees", links to RELIABILITY.md, which names the tests.

Web addresses are not checked: CI must not fail because another server is down.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"!?\[[^\]]*\]\(<?([^)\s>]+)>?\)|(?:src|href)=\"([^\"]+)\"")
# A file of this repository, named without a placeholder such as `NAME.rs` or a wildcard.
SOURCE = re.compile(r"`((?:model|connectors|daemon|experiments|tests|scripts|dashboards|charts)/[a-z0-9_./-]+\.[a-z]+)`")
# A test: `FILE::NAME`.
TEST = re.compile(r"`((?:model|connectors|daemon|experiments|tests|fuzzing)/[a-z0-9_./-]+\.rs)::([a-z0-9_]+)`")
PROMISES = "docs/ARCHITECTURE.md"
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


def main():
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    documents = [ROOT / name for name in listed.stdout.split()]
    problems = [problem for document in documents for problem in broken(document)]
    print("\n".join(problems) or f"all relative links of {len(documents)} documents are valid")
    sys.exit(bool(problems))


def broken(document):
    text = FENCE.sub("", document.read_text())
    for found in SOURCE.finditer(text):
        if not (ROOT / found[1]).exists():
            yield f"{document.relative_to(ROOT)}: {found[1]} does not exist"
    for found in TEST.finditer(text):
        file = ROOT / found[1]
        # A function, or the name of a trial.
        if not file.exists() or not re.search(rf"(fn |\"){found[2]}\b", file.read_text()):
            yield f"{document.relative_to(ROOT)}: {found[1]} has no test {found[2]}"
    if document == ROOT / PROMISES:
        yield from unproven(text)
    # Inline code is not a link.
    text = re.sub(r"`[^`\n]*`", "", text)
    for found in LINK.finditer(text):
        target = found[1] or found[2]
        if re.match(r"[a-z]+:", target):
            continue
        path, _, heading = target.partition("#")
        file = (document.parent / path).resolve() if path else document
        if not file.exists():
            yield f"{document.relative_to(ROOT)}: {target} does not exist"
        elif heading and file.suffix == ".md" and heading not in headings(file):
            yield f"{document.relative_to(ROOT)}: {target} has no such heading"


def unproven(text):
    """Guarantees that name no test."""
    section = text.partition("\n## Guarantees\n")[2].partition("\n## ")[0]
    for item in re.split(r"\n(?=\d+\. )", section)[1:] or ["no guarantees at all"]:
        if not TEST.search(item) and "](RELIABILITY.md" not in item:
            yield f"{PROMISES}: no test holds the guarantee {item[:60]!r}"


def headings(document):
    """Anchors of a document's headings, as forges derive them."""
    text = FENCE.sub("", document.read_text())
    lines = re.findall(r"^#+ +(.*?) *#*$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in lines}


main()
