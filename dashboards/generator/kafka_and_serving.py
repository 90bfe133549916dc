"""Inputs and outputs: Kafka, scoring, gRPC."""

from .dashboard import dashboard
from .panels import GREEN, RED, named, query, states, timeseries
from .promql import increase, metric, quantile, rate, total

DASHBOARD = dashboard(
    "kafka-and-serving",
    "Kafka and serving",
    "Events in, predictions and dead letters out, and requests over gRPC.",
    (
        "Events in",
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
                "Rejected events",
                "cps",
                "By reason. Above dead_letters.max_ratio reading stops until `ostard ctl resume`.",
                query(total(rate("ostar_events_rejected_total"), by="reason"), "{{reason}}"),
                min=0,
            ),
            timeseries(
                "Lag in time",
                "s",
                "Age of the last record that was read, by partition. 0 if nothing is left to read.",
                query(f"max by (partition) ({metric('ostar_consumer_lag_seconds')})", "partition {{partition}}"),
                min=0,
            ),
            timeseries(
                "Lag in records",
                "short",
                "Records that are not read yet, by partition.",
                query(f"max by (partition) ({metric('ostar_consumer_lag_records')})", "partition {{partition}}"),
                min=0,
            ),
        ],
    ),
    (
        None,
        7,
        [
            timeseries(
                "Delay of events",
                "s",
                "Time from an event's time stamp until it was read.",
                query(quantile(0.5, "ostar_event_delay_seconds"), "median"),
                query(quantile(0.99, "ostar_event_delay_seconds"), "99 %"),
                min=0,
            ),
            timeseries(
                "Lost offsets",
                "none",
                "Offsets that the broker no longer had when they were to be read, because of retention or a recreated topic.",
                query(total(increase("ostar_offsets_lost_total"), by="instance"), "{{instance}}"),
                min=0,
            ),
            states(
                "Broker",
                "Whether a broker answers.",
                query(metric("ostar_broker_connected"), "{{instance}}"),
                mappings=named(_0=("no answer", RED), _1=("connected", GREEN)),
            ),
            states(
                "Reading",
                "Reading stops after too many rejected events, until `ostard ctl resume`.",
                query(metric("ostar_consumption_stopped"), "{{instance}}"),
                mappings=named(_0=("reading", GREEN), _1=("stopped", RED)),
            ),
        ],
    ),
    (
        "Outputs to Kafka",
        8,
        [
            timeseries(
                "Records written",
                "cps",
                "Predictions and dead letters per second, delivered or failed.",
                query(total(rate("ostar_output_records_total"), by="output, outcome"), "{{output}} {{outcome}}"),
                min=0,
            ),
            timeseries(
                "Records in flight",
                "short",
                "Records whose delivery is not confirmed yet.",
                query(f"sum by (output) ({metric('ostar_output_in_flight_records')})", "{{output}}"),
                min=0,
            ),
            timeseries(
                "Time to score a batch",
                "s",
                "99th percentile, for the stream and for requests.",
                query(quantile(0.99, "ostar_scoring_duration_seconds", by="path"), "{{path}}"),
                min=0,
            ),
            timeseries(
                "Rows of a batch",
                "short",
                "Median number of rows that are scored at once. Batches grow under load.",
                query(quantile(0.5, "ostar_scoring_batch_rows", by="path"), "{{path}}"),
                min=0,
            ),
        ],
    ),
    (
        "Requests",
        8,
        [
            timeseries(
                "Requests",
                "reqps",
                "Finished requests per second, by method and status code.",
                query(total(rate("ostar_requests_total"), by="method, code"), "{{method}} {{code}}"),
                min=0,
            ),
            timeseries(
                "Latency",
                "s",
                "Time to answer a request for predictions, refusals included.",
                query(quantile(0.5, "ostar_request_duration_seconds"), "median"),
                query(quantile(0.9, "ostar_request_duration_seconds"), "90 %"),
                query(quantile(0.99, "ostar_request_duration_seconds"), "99 %"),
                min=0,
            ),
            timeseries(
                "Waiting inputs",
                "short",
                "Inputs that wait to be scored. Above requests.queue_rows, requests are refused.",
                query(metric("ostar_request_queue_rows"), "{{instance}}"),
                min=0,
            ),
        ],
    ),
    (
        None,
        7,
        [
            timeseries(
                "Inputs answered",
                "cps",
                "Inputs per second of the requests that were scored.",
                query(total(rate("ostar_request_rows_total"), by="instance"), "{{instance}}"),
                min=0,
            ),
            timeseries(
                "Refused requests",
                "reqps",
                "Requests per second that were not scored, by reason.",
                query(total(rate("ostar_requests_refused_total"), by="reason"), "{{reason}}"),
                min=0,
            ),
            timeseries(
                "Unauthenticated requests",
                "reqps",
                "Requests per second with a missing or wrong token, by listener.",
                query(total(rate("ostar_unauthenticated_requests_total"), by="listener"), "{{listener}}"),
                min=0,
            ),
        ],
    ),
    (
        None,
        7,
        [
            timeseries(
                "Connections",
                "short",
                "Open connections, by listener.",
                query(total(metric("ostar_connections"), by="listener"), "{{listener}}"),
                min=0,
            ),
            timeseries(
                "Cut connections and requests",
                "cps",
                "Connections and requests per second that the daemon cut because their clients stalled, flooded or were too many.",
                query(total(rate("ostar_connections_cut_total"), by="reason"), "connection: {{reason}}"),
                query(total(rate("ostar_requests_cut_total"), by="reason"), "request: {{reason}}"),
                min=0,
            ),
            timeseries(
                "Bytes of requests",
                "bytes",
                "Bytes of requests that are arriving, or that wait for their answer.",
                query(total(metric("ostar_request_bytes"), by="state"), "{{state}}"),
                min=0,
            ),
        ],
    ),
)
