"""The chart as helm renders it."""

import os
import pathlib
import subprocess

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "ostard"
HELM = os.environ["HELM"]
KUBERNETES = "1.36.0"
VALUES = sorted((CHART / "ci").glob("*-values.yaml"))
MINIMAL = CHART / "ci" / "minimal-values.yaml"


def helm(*arguments):
    """What helm says; the exit code, the output and the error stream."""
    command = [HELM, *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def template(values, *flags):
    arguments = ["template", "shop", CHART, "--namespace", "shop", "--kube-version", KUBERNETES]
    return helm(*arguments, "--values", values, *flags)


def objects(values, *flags):
    """The objects of a values file."""
    rendered = template(values, *flags)
    assert rendered.returncode == 0, rendered.stderr
    return [each for each in yaml.safe_load_all(rendered.stdout) if each]


def of_kind(kind, values, *flags):
    """The only object of its kind."""
    found = [each for each in objects(values, *flags) if each["kind"] == kind]
    assert len(found) == 1, f"{len(found)} of {kind}"
    return found[0]


def pod_specs(rendered):
    """Every pod that these objects would make."""
    for each in rendered:
        spec = each.get("spec", {})
        match each["kind"]:
            case "StatefulSet" | "Deployment" | "Job":
                yield spec["template"]["spec"]
            case "InferenceService":
                yield spec["predictor"]
            case "Pod":
                yield spec


def configuration(rendered):
    """Text of the daemon's configuration file."""
    maps = [each for each in rendered if each["kind"] == "ConfigMap"]
    return next(each["data"]["ostard.yaml"] for each in maps if "ostard.yaml" in each["data"])
