"""Is ostard healthy, and has anything moved?"""

from .dashboard import dashboard
from .panels import BLUE, GREEN, GREY, RED, YELLOW, alerts, band, dashed, instant, named, query, stat, timeseries
from .promql import CLASS, SERVED, distance, metric, moved, quantile, rate, served, total

MEASURED = metric("ostar_measured_accuracy", 'candidate="served"')

DASHBOARD = dashboard(
    "overview",
    "Overview",
    "Whether ostard is healthy, what it serves, and whether the classes have moved.",
    (
        None,
        4,
        [
            stat(
                "Ready",
                "none",
                "Whether all selected instances are ready. If not, GET /readyz says why.",
                instant(f"min({metric('ostar_ready')})", "ready"),
                mappings=named(_0=("not ready", RED), _1=("ready", GREEN)),
            ),
            stat(
                "Serving mode",
                "none",
                "Which candidate is served: the frozen model, the frozen model corrected to the stream's shares "
                "(prior), or the adapted model. Shadow serves frozen and computes all.",
                instant(f"{metric('ostar_serving_mode')} == 1", "{{mode}}"),
                text="name",
            ),
            stat(
                "Guard",
                "none",
                "Whether the newest adapted state may be served. If the guard refuses it, the last good one stays.",
                instant(f"min({metric('ostar_guard_agrees')})", "guard"),
                mappings=named(_0=("refuses", RED), _1=("agrees", GREEN)),
            ),
            stat(
                "Estimated accuracy",
                "percentunit",
                "Estimated accuracy of what is served, without labels. It assumes that only the shares have moved.",
                instant(f"min({served('ostar_estimated_accuracy')})", "accuracy"),
            ),
            stat(
                "Shares moved by",
                "percentunit",
                "Half the sum of the differences between the served shares and those in training: the part of the "
                "stream that would have to change class.",
                instant(f"max({moved()})", "moved"),
                thresholds=((None, GREEN), (0.1, YELLOW), (0.25, RED)),
            ),
            stat(
                "Lag",
                "s",
                "Age of the last record that was read, for the partition that is furthest behind.",
                instant(f"max({metric('ostar_consumer_lag_seconds')})", "lag"),
                thresholds=((None, GREEN), (60, YELLOW), (300, RED)),
            ),
        ],
    ),
    (
        "What has moved",
        9,
        [
            timeseries(
                "Shares of the classes",
                "percentunit",
                "Served shares. The dashboard Label shift has them with intervals and the shares in training.",
                query(f"avg by (class) ({metric('ostar_label_proportion', SERVED, CLASS)})", "{{class}}"),
                min=0,
                max=1,
            ),
            timeseries(
                "Distance of source and stream",
                "none",
                "Distance that label shift alone does not explain. Above twice the noise floor the classes themselves have "
                "changed: see the dashboard Conditional shift.",
                query(f"max({distance('before_map')})", "before the map"),
                query(f"max({distance('after_map')})", "after the map"),
                query(f"2 * max({distance('noise_floor')})", "twice the noise floor"),
                overrides=[dashed("twice the noise floor")],
                min=0,
            ),
            timeseries(
                "Estimated accuracy of what is served",
                "percentunit",
                "With its 95 % interval, without labels, if only the shares have moved. Measured accuracy appears once late "
                "labels arrive.",
                query(f"min({served('ostar_estimated_accuracy_low')})", "low"),
                query(f"min({served('ostar_estimated_accuracy_high')})", "high"),
                query(f"min({served('ostar_estimated_accuracy')})", "estimated"),
                query(f"min({MEASURED})", "measured"),
                overrides=band("low", "high"),
            ),
        ],
    ),
    (
        "How it runs",
        8,
        [
            timeseries(
                "Events read",
                "cps",
                "Events per second that were decoded, and that were rejected to the dead letters.",
                query(total(rate("ostar_events_total"), by="outcome"), "{{outcome}}"),
                min=0,
            ),
            timeseries(
                "Requests",
                "reqps",
                "Requests per second, by status code.",
                query(total(rate("ostar_requests_total"), by="code"), "{{code}}"),
                min=0,
            ),
            timeseries(
                "Latency of requests",
                "s",
                "Time to answer a request for predictions.",
                query(quantile(0.5, "ostar_request_duration_seconds"), "median"),
                query(quantile(0.99, "ostar_request_duration_seconds"), "99 %"),
                min=0,
            ),
        ],
    ),
    (
        None,
        8,
        [
            alerts("Alerts", "Alerts that fire or are pending. Each links to its runbook."),
            stat(
                "Instances",
                "none",
                "Version and model of each instance.",
                instant(metric("ostar_build_info"), "{{instance}}: {{version}}, {{model}}"),
                text="name",
                thresholds=((None, GREY),),
            ),
            stat(
                "Started",
                "dateTimeFromNow",
                "When each instance started.",
                instant(f"1000 * {metric('ostar_start_time_seconds')}", "{{instance}}"),
                thresholds=((None, BLUE),),
            ),
        ],
    ),
)
