"""Writes the dashboards, or lists those that are out of date."""

import argparse
import json
import pathlib
import sys

from . import conditional_shift, kafka_and_serving, label_shift, learner, overview, roles, served

FOLDER = pathlib.Path(__file__).parent.parent / "grafana"
MODULES = (overview, label_shift, conditional_shift, learner, kafka_and_serving, served, roles)
DASHBOARDS = [module.DASHBOARD for module in MODULES]


def main():
    parser = argparse.ArgumentParser(prog="generator", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file differs")
    check = parser.parse_args().check
    wanted = {f"{dashboard['uid']}.json": text(dashboard) for dashboard in DASHBOARDS}
    there = {path.name: path.read_text() for path in FOLDER.glob("*.json")}
    stale = sorted(name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name))
    if check and stale:
        sys.exit(f"not what the generator writes, run `make dashboards`: {', '.join(stale)}")
    for name in stale:
        if name in wanted:
            (FOLDER / name).write_text(wanted[name])
        else:
            (FOLDER / name).unlink()


def text(dashboard):
    return json.dumps(dashboard, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    main()
