"""The share of each class, with its interval, beside training's."""

from .dashboard import dashboard
from .panels import band, dashed, query, repeated, timeseries
from .promql import CLASS, SERVED, TRAINING, metric, moved, rate, total


def share(candidate, part="", aggregate="avg"):
    return f'{aggregate}({metric(f"ostar_label_proportion{part}", candidate, CLASS)})'


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
                    "The served share with its 95 % interval, and the share in training. A share has moved when the "
                    "dashed line lies outside the band. Of several instances: the mean, and the widest interval.",
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
        "How far, and how sure",
        8,
        [
            timeseries(
                "Distance from training",
                "percentunit",
                "Half the sum of the differences of shares: the part of the stream that would have to change its class.",
                query(moved(), "{{instance}}"),
                min=0,
            ),
            timeseries(
                "Share over training's",
                "none",
                "1 is as in training. The alert OstardShareMoved asks whether the whole interval is beyond 1.5 or 1/1.5.",
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
                "How many independent events the shares are worth: the more, the narrower their intervals.",
                query(metric("ostar_label_proportion_effective_rows"), "{{candidate}} {{instance}}"),
                min=0,
            ),
        ],
    ),
    (
        "Whether to believe it",
        8,
        [
            timeseries(
                "Share by each classifier",
                "percentunit",
                "The share as the frozen and as the adapted classifier tells it, and the one that is served. They "
                "part when the classes changed their shape.",
                query(
                    metric("ostar_label_proportion", 'candidate!="training"', CLASS),
                    "{{class}} {{candidate}} {{instance}}",
                ),
                min=0,
            ),
            timeseries(
                "Share among late labels",
                "percentunit",
                "The share among the newest labels, where a topic of labels is read, beside the served one. Labels "
                "come late: theirs is the older picture.",
                query(f"avg by (class) ({metric('ostar_true_proportion', CLASS)})", "{{class}} labels"),
                query(f"avg by (class) ({metric('ostar_label_proportion', SERVED, CLASS)})", "{{class}} served"),
                min=0,
            ),
            timeseries(
                "Smallest singular value",
                "none",
                "Of the adapted classifier's confusion matrix. Near 0 different shares look the same, and none can be told.",
                query(metric("ostar_confusion_smallest_singular_value"), "{{instance}}"),
                min=0,
            ),
        ],
    ),
    (
        "What it does to predictions",
        8,
        [
            timeseries(
                "Predictions by class",
                "cps",
                "Predictions a second whose most probable class it is, for the stream and over gRPC.",
                query(total(rate("ostar_predictions_total", CLASS), by="class, path"), "{{class}} {{path}}"),
                min=0,
            ),
            timeseries(
                "Calibration",
                "none",
                "Predicted over observed count of the class among late labels, of what was served; 1 is calibrated.",
                query(
                    metric("ostar_measured_calibration_ratio", 'candidate="served"', CLASS), "{{class}} {{instance}}"
                ),
                min=0,
            ),
        ],
    ),
)
