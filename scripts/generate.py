"""Writes the generated files, or with --check fails with those that are out of date.

- docs/CONFIGURATION_REFERENCE.md and the daemon's part of charts/ostard/values.schema.json, from the schema of the
  program that OSTARD names;
- charts/ostard/files, from dashboards/, because helm reads only files inside a chart;
- charts/ostard/README.md, from the comments of values.yaml.
"""

import json
import os
import pathlib
import subprocess
import sys

from configuration_reference import reference

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHART = ROOT / "charts" / "ostard"


def main():
    check = sys.argv[1:] == ["--check"]
    expected, folders = everything()
    stale = [path for path, text in expected.items() if not path.exists() or path.read_text() != text]
    extra = [path for folder in folders for path in folder.rglob("*") if path.is_file() and path not in expected]
    if check:
        for path in stale + extra:
            print(f"{path.relative_to(ROOT)} is out of date, run `make generate`")
        sys.exit(bool(stale or extra))
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(expected[path])
    for path in extra:
        path.unlink()


def everything():
    """Contents by path, and the folders that hold nothing but generated files."""
    schema = json.loads(output(os.environ["OSTARD"], "config", "schema"))
    files = {
        ROOT / "docs" / "CONFIGURATION_REFERENCE.md": reference(schema),
        CHART / "values.schema.json": values_schema(schema),
        CHART / "README.md": chart_readme(),
    }
    folders = [CHART / "files" / name for name in ("dashboards", "rules")]
    for path in sorted((ROOT / "dashboards" / "grafana").glob("*.json")):
        files[folders[0] / path.name] = path.read_text()
    for path in sorted((ROOT / "dashboards" / "rules").glob("*.yaml")):
        files[folders[1] / path.name] = path.read_text()
    return files, folders


def values_schema(schema):
    """The chart's schema, with the daemon's schema for the key `config`."""
    values = json.loads((CHART / "values.schema.base.json").read_text())
    values["properties"]["config"] = {
        key: schema[key] for key in ("type", "properties", "additionalProperties")
    }
    values["$defs"] |= schema["$defs"]
    return json.dumps(values, indent=2) + "\n"


def chart_readme():
    """The output of helm-docs for the template and the comments of values.yaml."""
    helm_docs = output(str(ROOT / "scripts" / "tool"), "helm-docs").strip()
    text = output(helm_docs, "--chart-search-root", str(CHART), "--dry-run", "--log-level", "warning")
    return text.strip() + "\n"


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout


main()
