"""What is served and why: mode, version, the guard's reasons, and how good each candidate is."""

from .dashboard import dashboard
from .panels import GREEN, GREY, RED, band, dashed, named, query, states, stat, instant, timeseries
from .promql import CLASS, increase, metric, rate, total


def figure(title, unit, name, text, **defaults):
    """A measure of every candidate, from late labels."""
    return timeseries(title, unit, text, query(metric(name), "{{candidate}} {{instance}}"), **defaults)


def estimated(candidate):
    """Accuracy of a candidate with its interval."""
    matcher = f'candidate="{candidate}"'
    return timeseries(
        f"Estimated accuracy: {candidate}",
        "percentunit",
        "With its 95 % interval, without labels, if only the shares have moved. Accuracy by late labels is below.",
        query(f"min({metric('ostar_estimated_accuracy_low', matcher)})", "low"),
        query(f"max({metric('ostar_estimated_accuracy_high', matcher)})", "high"),
        query(f"avg({metric('ostar_estimated_accuracy', matcher)})", "estimated"),
        query(f"avg({metric('ostar_measured_accuracy', matcher)})", "measured"),
        overrides=[*band("low", "high"), dashed("measured", GREEN)],
    )


DASHBOARD = dashboard(
    "served",
    "What is served and why",
    "Which state is served, what the guard decided about the newest one, and how good the candidates are.",
    (
        "What is served",
        7,
        [
            states(
                "Serving mode",
                "Which candidate is served. serving.mode sets it; `ostard ctl mode` changes it until the next start.",
                query(f"{metric('ostar_serving_mode')} == 1", "{{mode}} {{instance}}"),
                mappings=named(_1=("served", GREEN)),
            ),
            stat(
                "Version",
                "none",
                "Version of the served state: starts of the learner (epoch) and alignment steps.",
                instant(metric("ostar_model_version_epoch"), "epoch {{instance}}"),
                instant(metric("ostar_model_version_step"), "step {{instance}}"),
                thresholds=((None, GREY),),
            ),
            timeseries(
                "Step served",
                "none",
                "Alignment steps of the learner when the served state was published. Flat while learning is paused or stalled.",
                query(metric("ostar_model_version_step"), "{{instance}}"),
                min=0,
            ),
        ],
    ),
    (
        "Why",
        7,
        [
            states(
                "Guard",
                "Whether the newest adapted state may be served. While the guard refuses, the last good one stays.",
                query(metric("ostar_guard_agrees"), "{{instance}}"),
                mappings=named(_0=("refuses", RED), _1=("agrees", GREEN)),
            ),
            timeseries(
                "Refusals",
                "none",
                "Refused states by reason. After learner.method.guard.refusals_before_restore in a row, the last good weights are restored.",
                query(total(increase("ostar_guard_refusals_total"), by="reason"), "{{reason}}"),
                query(total(increase("ostar_restores_total")), "weights restored"),
                min=0,
            ),
            timeseries(
                "Held-out cross-entropy",
                "none",
                "One measure of the guard: the adapted classifier on mapped source rows, and the frozen one.",
                query(metric("ostar_held_out_cross_entropy"), "{{candidate}} {{instance}}"),
                min=0,
            ),
        ],
    ),
    ("Estimated quality", 8, [estimated("frozen"), estimated("prior"), estimated("adapted")]),
    (
        "What labels say",
        8,
        [
            timeseries(
                "Chance to be better",
                "percentunit",
                "Chance that the first candidate is right more often than the second where they differ, by labels. Prior "
                "correction is served against the tests above 70 or 90 %, and not served below 20 or 10 %; the adapted "
                "model closes below 10 %.",
                query(metric("ostar_label_preference_probability"), "{{challenger}} over {{incumbent}} {{instance}}"),
                min=0,
                max=1,
            ),
            timeseries(
                "Bets on the adapted model",
                "none",
                "What 1 has become that was bet on the adapted model, label by label. At 20 labels open it.",
                query(
                    metric("ostar_label_preference_wealth", 'challenger="adapted"'), "over {{incumbent}} {{instance}}"
                ),
                limit=20,
                min=0,
            ),
            timeseries(
                "Strength of prior correction",
                "percentunit",
                "How far prior correction goes to the estimated shares. Less than 100 % where labels say that all of it is too far.",
                query(metric("ostar_gate_prior_strength"), "{{instance}}"),
                min=0,
                max=1,
            ),
            timeseries(
                "Requests for labels",
                "cps",
                "Labels asked for per second, by reason. Requests need labels.requests.topic.",
                query(total(rate("ostar_label_requests_total"), by="reason"), "asked for: {{reason}}"),
                min=0,
            ),
        ],
    ),
    (
        "Measured quality, by late labels",
        8,
        [
            figure(
                "Accuracy",
                "percentunit",
                "ostar_measured_accuracy",
                "Share of the newest labelled events that were predicted right, by each candidate and by what was served.",
            ),
            figure(
                "Balanced accuracy",
                "percentunit",
                "ostar_measured_balanced_accuracy",
                "Mean over the classes of the share predicted right.",
            ),
            figure(
                "Logarithmic loss",
                "none",
                "ostar_measured_log_loss",
                "Mean negative logarithm of the probability given to the true class.",
                min=0,
            ),
            figure("Area under the curve", "none", "ostar_measured_auc", "Area under the ROC curve."),
        ],
    ),
    (
        None,
        8,
        [
            timeseries(
                "Calibration",
                "none",
                "Predicted over observed count of the class. 1 is calibrated.",
                query(metric("ostar_measured_calibration_ratio", CLASS), "{{class}} {{candidate}} {{instance}}"),
                min=0,
            ),
            timeseries(
                "Labels",
                "cps",
                "Late labels and events per second, by what became of them.",
                query(total(rate("ostar_labels_total"), by="outcome"), "{{outcome}}"),
                min=0,
            ),
        ],
    ),
)
