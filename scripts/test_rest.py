"""Runs the tests that `cargo test` does not: those of the other members, and those behind features.

Both sets of programs are listed; what the quick tests have by the same name in the same program is left out. Also fails
where a test file of the quick tests has no test, as one does that a feature compiles to nothing.
"""

import concurrent.futures
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
    """The program's file if it has no test at all, and its modules without one, unless a feature stands at their name."""
    if not tests:
        yield source
    lines = source.read_text().splitlines()
    for before, line in zip([""] + lines, lines):
        module = re.fullmatch(r"mod (\w+);", line)
        if not module or before.startswith("#["):
            continue
        if not any(test.startswith(f"{module[1]}::") for test in tests):
            yield source.parent / f"{module[1]}.rs"


def run(program, package, tests, is_whole):
    """Runs all tests of a program, or these. Returns whether they passed, what was printed, and the seconds."""
    environment = {**os.environ, "CARGO_MANIFEST_DIR": str(ROOT / package)}
    if is_whole:
        calls = [[program]]
    elif pathlib.Path(program).name.startswith("serial-"):
        # Not the standard harness: takes one name.
        calls = [[program, "--exact", test] for test in tests]
    else:
        calls = [[program, "--exact", *tests]]
    start = time.monotonic()
    ended = [
        subprocess.run(
            call, cwd=ROOT / package, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for call in calls
    ]
    passed = all(process.returncode == 0 for process in ended)
    return passed, "".join(process.stdout for process in ended), time.monotonic() - start


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
    rest = []
    for key, (path, _) in programs("--workspace").items():
        every = names(path, key[0])
        own = [name for name in every if name not in quick.get(key, set())]
        if own:
            rest.append((key, path, own, len(own) == len(every)))
    # Two at a time, because most of them wait; the longest first.
    rest.sort(key=lambda row: -len(row[2]))
    failed, rows = bool(empty), []
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        running = {threads.submit(run, path, key[0], own, is_whole): (key, own) for key, path, own, is_whole in rest}
        for ended in concurrent.futures.as_completed(running):
            (key, own), (passed, output, seconds) = running[ended], ended.result()
            print(f"\n     Ran {key[0]} {key[1]} ({len(own)} tests that are not quick)\n{output}", flush=True)
            rows.append(f"{seconds:7.1f} s {len(own):5} tests  {key[0]} {key[1]}{'' if passed else '  FAILED'}")
            failed |= not passed
    print(f"\ncargo test has {sum(map(len, quick.values()))} tests; these were the others:")
    print("\n".join(rows))
    sys.exit(failed)


main()
