"""The share of each class with its interval, and the share in training."""

from .dashboard import dashboard
from .panels import band, dashed, query, repeated, timeseries
from .promql import CLASS, SERVED, TRAINING, metric, moved, rate, total


def share(candidate, part="", aggregate="avg"):
    return f'{aggregate}({metric(f"ostar_label_proportion{part}", candidate, CLASS)})'


def by_labels(part="", aggregate="avg"):
    return f'{aggregate}({metric(f"ostar_proportion_by_labels{part}", CLASS)})'


DASHBOARD = dashboard(
    "label-shift",
    "Label shift",
    "How the shares of the classes in the stream differ from those in training, with 95 % intervals.",
    (
        "Share of each class",
        9,
        [
            repeated(
                "class",
                timeseries(
                    "Share of $class",
                    "percentunit",
                    "The served share with its 95 % interval, and the share in training (dashed). The share has moved if the "
                    "dashed line lies outside the band. For several instances: the mean and the widest interval.",
                    query(share(SERVED, "_low", "min"), "low"),
                    query(share(SERVED, "_high", "max"), "high"),
                    query(share(SERVED), "served"),
                    query(share(TRAINING), "training"),
                    overrides=[*band("low", "high"), dashed("training")],
                    min=0,
                ),
            ),
        ],
    ),
    (
        "Share of each class by labels",
        9,
        [
            repeated(
                "class",
                timeseries(
                    "Share of $class by labels",
                    "percentunit",
                    "By labels of events that were drawn at random (labels.requests.random_per_block), with its 95 % interval: it holds "
                    "whatever has changed, also where the share cannot be told without labels. The share in training is dashed.",
                    query(by_labels("_low", "min"), "low"),
                    query(by_labels("_high", "max"), "high"),
                    query(by_labels(), "by labels"),
                    query(share(TRAINING), "training"),
                    overrides=[*band("low", "high"), dashed("training")],
                    min=0,
                ),
            ),
        ],
    ),
    (
        "How far, and how certain",
        8,
        [
            timeseries(
                "Distance from training",
                "percentunit",
                "Half the sum of the differences of the shares: the part of the stream that would have to change class.",
                query(moved(), "{{instance}}"),
                min=0,
            ),
            timeseries(
                "Share relative to training",
                "none",
                "1 means as in training. OstardShareMoved fires when the share leaves its usual level.",
                query(
                    f"{metric('ostar_label_proportion', SERVED, CLASS)} / ignoring (candidate) "
                    f"{metric('ostar_label_proportion', TRAINING, CLASS)}",
                    "{{class}} {{instance}}",
                ),
                min=0,
            ),
            timeseries(
                "Effective events",
                "short",
                "Number of independent events that the shares are worth. The more, the narrower the intervals.",
                query(metric("ostar_label_proportion_effective_rows"), "{{candidate}} {{instance}}"),
                min=0,
            ),
        ],
    ),
    (
        "Can it be trusted?",
        8,
        [
            timeseries(
                "Share by each classifier",
                "percentunit",
                "The share as estimated with the frozen and with the adapted classifier, and the one that is served. The two "
                "diverge when the classes change shape.",
                query(
                    metric("ostar_label_proportion", 'candidate!="training"', CLASS),
                    "{{class}} {{candidate}} {{instance}}",
                ),
                min=0,
            ),
            timeseries(
                "Share among late labels",
                "percentunit",
                "The share among the newest late labels, if labels.topic is set, and the served share. Labels arrive late, so "
                "their share is older.",
                query(f"avg by (class) ({metric('ostar_true_proportion', CLASS)})", "{{class}} labels"),
                query(f"avg by (class) ({metric('ostar_label_proportion', SERVED, CLASS)})", "{{class}} served"),
                min=0,
            ),
            timeseries(
                "Smallest singular value",
                "none",
                "Of the adapted classifier's confusion matrix. Near 0, different shares give the same predictions, so shares cannot be estimated.",
                query(metric("ostar_confusion_smallest_singular_value"), "{{instance}}"),
                min=0,
            ),
        ],
    ),
    (
        "Effect on predictions",
        8,
        [
            timeseries(
                "Predictions by class",
                "cps",
                "Predictions per second by most probable class, for the stream and for requests.",
                query(total(rate("ostar_predictions_total", CLASS), by="class, path"), "{{class}} {{path}}"),
                min=0,
            ),
            timeseries(
                "Calibration",
                "none",
                "Predicted over observed count of the class among late labels, for what was served. 1 is calibrated.",
                query(
                    metric("ostar_measured_calibration_ratio", 'candidate="served"', CLASS), "{{class}} {{instance}}"
                ),
                min=0,
            ),
        ],
    ),
)
