"""Runs the tests that `cargo test` does not: those of the other members, and those behind features.

Both sets of programs are listed; what the quick tests have by the same name in the same program is left out. Also fails
where a test file of the quick tests has no test, as one does that a feature compiles to nothing.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def programs(*options):
    """Test programs by package and target: their path, source file and package folder. Builds them."""
    command = ["cargo", "test", "--no-run", "--message-format=json-render-diagnostics", *options]
    built = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if built.returncode:
        sys.exit(built.returncode)
    found = {}
    for line in built.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable") and message.get("profile", {}).get("test"):
            manifest, target = pathlib.Path(message["manifest_path"]), message["target"]
            key = (manifest.parent.relative_to(ROOT).as_posix(), target["name"], target["kind"][0])
            found[key] = (message["executable"], pathlib.Path(target["src_path"]))
    return found


def names(program, package):
    listed = subprocess.run(
        [program, "--list", "--format", "terse"], cwd=ROOT / package, stdout=subprocess.PIPE, text=True, check=True
    )
    return [line.removesuffix(": test") for line in listed.stdout.splitlines() if line.endswith(": test")]


def empty_files(source, tests):
    """Modules of a test program that have no test, unless a feature stands at their name."""
    lines = source.read_text().splitlines()
    for before, line in zip([""] + lines, lines):
        module = re.fullmatch(r"mod (\w+);", line)
        if not module or before.startswith("#["):
            continue
        if not any(test.startswith(f"{module[1]}::") for test in tests):
            yield source.parent / f"{module[1]}.rs"


def run(program, package, tests, is_whole):
    """Runs all tests of a program, or these."""
    environment = {**os.environ, "CARGO_MANIFEST_DIR": str(ROOT / package)}
    if is_whole:
        calls = [[program]]
    elif package == "model" and tests and pathlib.Path(program).name.startswith("serial-"):
        # Not the standard harness: takes one name.
        calls = [[program, "--exact", test] for test in tests]
    else:
        calls = [[program, "--exact", *tests]]
    return all(subprocess.run(call, cwd=ROOT / package, env=environment).returncode == 0 for call in calls)


def main():
    built = programs()
    quick = {key: set(names(path, key[0])) for key, (path, _) in built.items()}
    empty = [
        file
        for key, (_, source) in built.items()
        if key[2] == "test"
        for file in empty_files(source, quick[key])
    ]
    for file in empty:
        print(f"{file.relative_to(ROOT)} has no test without features")
    failed, rows = bool(empty), []
    for key, (path, _) in sorted(programs("--workspace").items()):
        all_names = names(path, key[0])
        rest = [name for name in all_names if name not in quick.get(key, set())]
        if not rest:
            continue
        print(f"\n     Running {key[0]} {key[1]} ({len(rest)} of {len(all_names)} tests)", flush=True)
        start = time.monotonic()
        passed = run(path, key[0], rest, len(rest) == len(all_names))
        rows.append((time.monotonic() - start, key, len(rest), passed))
        failed |= not passed
    print(f"\ncargo test has {sum(map(len, quick.values()))} tests; these were the others:")
    for seconds, key, count, passed in rows:
        print(f"{seconds:7.1f} s {count:5} tests  {key[0]} {key[1]}{'' if passed else '  FAILED'}")
    sys.exit(failed)


main()
