"""Fails when a tracked file uses a name that was renamed or removed, with file:line and what to use instead.

The list has only names that are wrong wherever they stand: identifiers, metrics with their labels, keys, flags.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Old name, as a regular expression that has to match whole words, and new name.
RENAMED = {
    # The model
    "label_shift_distance": "distance_before_map",
    "distance_floor": "noise_floor",
    "source_accuracy": "frozen_accuracy",
    "good_iterations": "good_steps",
    "iterations_per_s": "steps_per_s",
    "FrozenClassifier": "ClassifierNetwork",
    "FrozenEncoder": "EncoderNetwork",
    "FrozenLayer": "PackedLayer",
    "FrozenMap": "MapNetwork",
    "FrozenStack": "LayerStack",
    "LayerCell": "SharedLayer",
    "TileTask": "TileInput",
    "Criticism": "CriticValues",
    "criticise": "critic",
    r"(AdversaryTerm|Opposition)": "Adversary",
    r"struct Meeting": "struct Exchange",
    r"struct View": "struct AlignmentEvidence",
    r"proportions::Published": "proportions::ProportionEstimate",
    "ShareReading": "ProportionReading",
    r"confusion\.shares": "confusion.proportions",
    "drawn_shares": "drawn_proportions",
    "true_shares": "true_proportions",
    "is_telling": "has_enough_rows",
    # Kafka
    "LabelSource": "LabelReader",
    r"kafka::Source": "kafka::Reader",
    "LetterFile": "DeadLetterFile",
    r"enum Letters": "enum DeadLetterSink",
    r"struct Unsuitable": "struct UnsuitableSettings",
    # The daemon
    r"struct Outlets": "struct Publisher",
    "IngestOrders": "Ingest",
    "AskForToken": "TokenCheck",
    r"ScoringPath::Grpc": "ScoringPath::Request",
    "observe_published": "observe_estimate",
    # gRPC
    "MODE_SOURCE": "MODE_FROZEN",
    "ClassShare": "ClassProportions",
    "published_low": "served_low",
    "published_high": "served_high",
    # Settings
    r"grpc\.max_rows": "requests.max_rows",
    r"grpc\.max_message_bytes": "requests.max_bytes",
    "max_message_bytes": "max_bytes",
    r"grpc\.queue_rows": "requests.queue_rows",
    r"grpc\.queue_bytes": "requests.queue_bytes",
    r"grpc\.max_wait": "requests.max_wait",
    r"grpc\.max_batch_rows": "requests.max_batch_rows",
    r"grpc\.threads": "requests.threads",
    # The page
    "true_share": "true_proportion",
    # Metrics
    r'candidate="published"': 'candidate="served"',
    r'candidate="source"': 'candidate="frozen"',
    r'stage="floor"': 'stage="noise_floor"',
    r'path="grpc"': 'path="request"',
    "over_floor": "over_noise_floor",
    "ostar_label_shift_distance": 'ostar_sliced_distance{stage="before_map"}',
}

# Name that is gone for good, as above, and what does its work now.
REMOVED = {
    r"Tracker::reference": "the learner gives the estimator its reference",
    r"tracker\.reference": "the learner gives the estimator its reference",
    "refutes_label_shift": "the gate decides, see Verdict::refuted",
    "refuted_at": "the gate decides, see learner.method.gate",
}

# Places that need old names: notes on upgrading, the table of renamed keys, files of old versions.
EXEMPT = (
    "docs/UPGRADING.md",
    "daemon/src/config/renamed.rs",
    "connectors/tests/fixtures/",
    "scripts/check_names.py",
)
# serde reads old names of saved state.
ALIAS = re.compile(r'\balias = "')


def main():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    names = [name for name in listed.stdout.split("\0") if name and not name.startswith(EXEMPT)]
    problems = [problem for name in names for problem in places(name)]
    print("\n".join(problems) or f"{len(names)} files use none of {len(RENAMED)} renamed and {len(REMOVED)} removed names")
    sys.exit(bool(problems))


def places(name):
    path = ROOT / name
    if not path.is_file():
        return
    content = path.read_bytes()
    if b"\0" in content:
        return
    for number, line in enumerate(content.decode(errors="replace").splitlines(), 1):
        if ALIAS.search(line):
            continue
        # JSON escapes the quotes of a query's labels.
        for found in PATTERN.finditer(line.replace('\\"', '"')):
            yield f"{name}:{number}: {found[0]} was {fate(found[0])}"


def fate(found):
    for old, new in RENAMED.items():
        if re.fullmatch(old, found):
            return f"renamed to {new}"
    return next(f"removed: {why}" for old, why in REMOVED.items() if re.fullmatch(old, found))


PATTERN = re.compile("|".join(rf"(?<!\w){old}(?!\w)" for old in (*RENAMED, *REMOVED)))

main()
