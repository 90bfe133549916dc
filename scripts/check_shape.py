"""Fails on a cycle between the top-level modules of a product crate, and on a dependency between crates that points upwards.

Dependencies of tests and of build scripts count like others. Between modules unit tests do not: a fixture may use everything.
"""

import collections
import pathlib
import re
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Each may use those before it.
FLOORS = ["model/engine", "model/method", "model/bundle", "connectors", "daemon"]
# Above all of them; what they do among themselves is their own.
ROOF = ["experiments", "tests"]
SECTIONS = ("dependencies", "dev-dependencies", "build-dependencies")
USE = re.compile(r"^\s*(?:pub(?:\([^)]*\))?\s+)?use\s+([^;]+);", re.MULTILINE)


def product_code(text):
    """Without comments and unit tests, which end a file."""
    return re.sub(r"//[^\n]*", "", text.split("#[cfg(test)]\nmod tests {")[0])


def test_modules(source):
    """Files and folders of modules that only tests have."""
    found = set()
    for file in source.rglob("*.rs"):
        folder = file.parent if file.stem in ("lib", "main", "mod") else file.with_suffix("")
        for name in re.findall(r"#\[cfg\((?:all\()?test\b.*\)\]\s*(?:pub\(crate\) )?mod (\w+);", file.read_text()):
            found |= {folder / f"{name}.rs", folder / name}
    return found


def leaves(tree):
    """Paths of a use tree such as `a::{b, c::d}`."""
    head, brace, rest = tree.partition("{")
    if not brace:
        yield tree.split(" as ")[0].strip()
        return
    depth, start, inner = 0, 0, rest[: rest.rindex("}")]
    for place, character in enumerate(inner + ","):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == "," and depth == 0:
            if part := inner[start:place].strip():
                yield from (head.strip() + leaf for leaf in leaves(part))
            start = place + 1


def exports(root_text):
    """Names that the crate's root passes on, and the module that each comes from."""
    found = {}
    for tree in re.findall(USE, root_text):
        for leaf in leaves(re.sub(r"\s+", " ", tree).replace(" ", "") if "{" in tree else tree):
            parts = [part for part in leaf.split("::") if part not in ("self", "crate")]
            if len(parts) > 1:
                found[parts[-1]] = parts[0]
    return found


def edges(source):
    """Which top-level module uses which, and a file where it does."""
    modules = {file.stem for file in source.glob("*.rs")} | {folder.name for folder in source.iterdir() if folder.is_dir()}
    modules -= {"lib", "main"}
    passed_on = {}
    for root in ("lib.rs", "main.rs"):
        if (source / root).exists():
            passed_on |= exports(product_code((source / root).read_text()))
    used = collections.defaultdict(dict)
    tests = test_modules(source)
    for file in sorted(source.rglob("*.rs")):
        if tests & {file, *file.parents}:
            continue
        parts = file.relative_to(source).with_suffix("").parts
        if parts[0] in ("lib", "main"):
            continue
        depth = len(parts) - (parts[-1] == "mod")
        text = product_code(file.read_text())
        paths = []
        for tree in re.findall(USE, text):
            paths += leaves(re.sub(r"\s+", " ", tree))
        paths += re.findall(r"\b(?:crate|super)(?:::\w+)+", text)
        for path in paths:
            steps = [step.strip() for step in path.split("::")]
            supers = sum(step == "super" for step in steps)
            # In a module within the file one `super` more leads as far.
            if not (steps[0] == "crate" or (supers and supers >= depth)):
                continue
            name = next((step for step in steps if step not in ("crate", "super", "self")), None)
            target = name if name in modules else passed_on.get(name)
            if target in modules and target != parts[0]:
                used[parts[0]].setdefault(target, file.relative_to(ROOT))
    return used


def knots(used):
    """Sets of modules that reach each other."""

    def reach(start):
        seen, waiting = set(), [start]
        while waiting:
            for target in used.get(waiting.pop(), ()):
                if target not in seen:
                    seen.add(target)
                    waiting.append(target)
        return seen

    reached = {module: reach(module) for module in used}
    found = {frozenset(m for m in reached if m in reached[module] and module in reached[m]) for module in reached}
    return [knot for knot in found if knot]


def manifest(folder):
    return tomllib.loads((ROOT / folder / "Cargo.toml").read_text())


def packages(crate, shared):
    """Packages that a crate's manifest names for any target, by their own names, and the section that names each."""
    for part in (crate, *crate.get("target", {}).values()):
        for section in SECTIONS:
            for name, asked in part.get(section, {}).items():
                if isinstance(asked, dict) and asked.get("workspace"):
                    asked = shared.get(name)
                yield section, asked.get("package", name) if isinstance(asked, dict) else name


def main():
    problems = []
    shared = manifest(".")["workspace"]["dependencies"]
    names = {floor: manifest(floor)["package"]["name"] for floor in FLOORS + ROOF}
    for number, floor in enumerate(FLOORS):
        above = {names[higher] for higher in FLOORS[number + 1 :] + ROOF}
        for section, package in packages(manifest(floor), shared):
            if package in above:
                problems.append(f"{floor}/Cargo.toml: [{section}] names {package}, which is above it")
        used = edges(ROOT / floor / "src")
        for knot in knots(used):
            listed = [
                f"    {module} -> {target}  ({used[module][target]})"
                for module in sorted(knot)
                for target in sorted(used[module])
                if target in knot
            ]
            problems.append(f"{floor}: a cycle of modules\n" + "\n".join(listed))
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
