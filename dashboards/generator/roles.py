"""Scorers and a learner as processes of their own: does everybody follow, and who does how much?"""

from .dashboard import dashboard
from .panels import BLUE, GREEN, GREY, RED, YELLOW, instant, named, query, stat, states, timeseries
from .promql import metric, of_role, quantile, rate, total

ACCEPTED = 'outcome="accepted"'
REJECTED = 'outcome="rejected"'

DASHBOARD = dashboard(
    "roles",
    "Scorers and learner",
    "Processes by role: whether one learns, whether all others follow it, and how the work is spread. Empty where one process "
    "does everything.",
    (
        None,
        4,
        [
            stat(
                "Learners that learn",
                "none",
                "One learns, the others stand by. Two for a moment while one takes over.",
                instant(f"count({of_role('learner', metric('ostar_standby') + ' == 0')}) or vector(0)", "learners"),
                thresholds=((None, RED), (1, GREEN), (2, YELLOW)),
            ),
            stat(
                "Scorers that are ready",
                "none",
                "A scorer is ready when it has read the state topic.",
                instant(f"sum({of_role('scorer', metric('ostar_ready'))})", "scorers"),
                thresholds=((None, RED), (1, GREEN)),
            ),
            stat(
                "Age of the state",
                "s",
                "Time since the learner last wrote to the state topic, as the follower that is furthest behind sees it.",
                instant(f"max({metric('ostar_state_age_seconds')})", "age"),
                thresholds=((None, GREEN), (30, YELLOW), (60, RED)),
            ),
            stat(
                "Events that are learned",
                "percentunit",
                "Share of the events that scorers pass on: all while there are fewer than samples.per_second.",
                instant(f"min({metric('ostar_sample_share')})", "share"),
                thresholds=((None, BLUE),),
            ),
            stat(
                "Roles",
                "none",
                "The role of each instance.",
                instant(metric("ostar_role_info"), "{{instance}}: {{role}}"),
                text="name",
                thresholds=((None, GREY),),
            ),
        ],
    ),
    (
        "What the learner publishes",
        8,
        [
            timeseries(
                "Age of the state",
                "s",
                "By follower. All grow together without a learner; one alone does not follow.",
                query(metric("ostar_state_age_seconds"), "{{instance}}"),
                limit=60,
                min=0,
            ),
            timeseries(
                "Delay of snapshots",
                "s",
                "From the publication of a snapshot until a follower served it.",
                query(quantile(0.5, "ostar_snapshot_delay_seconds"), "median"),
                query(quantile(0.99, "ostar_snapshot_delay_seconds"), "99 %"),
                min=0,
            ),
            timeseries(
                "Version that is served",
                "none",
                "Step by instance: all should be the same.",
                query(metric("ostar_model_version_step"), "{{instance}}"),
                min=0,
            ),
            states(
                "Learners",
                "Who learns and who stands by.",
                query(of_role("learner", metric("ostar_standby")), "{{instance}}"),
                mappings=named(_0=("learns", GREEN), _1=("stands by", GREY)),
            ),
        ],
    ),
    (
        "Scorers",
        8,
        [
            timeseries(
                "Events by scorer",
                "cps",
                "Events per second that each scorer reads.",
                query(of_role("scorer", total(rate("ostar_events_total"), by="job, instance")), "{{instance}}"),
                min=0,
            ),
            timeseries(
                "Partitions by scorer",
                "none",
                "Partitions that the group has assigned. A scorer without any only answers requests.",
                query(
                    of_role("scorer", f"count by (job, instance) ({metric('ostar_consumer_lag_records')})"), "{{instance}}"
                ),
                min=0,
            ),
            timeseries(
                "Requests by scorer",
                "reqps",
                "Requests per second that each scorer answers.",
                query(of_role("scorer", total(rate("ostar_requests_total"), by="job, instance")), "{{instance}}"),
                min=0,
            ),
        ],
    ),
    (
        "Samples",
        8,
        [
            timeseries(
                "Samples",
                "cps",
                "Samples per second that scorers have delivered, and that the learner has read.",
                query(total(rate("ostar_output_records_total", 'output="samples"', 'outcome="delivered"')), "delivered"),
                query(f"sum({of_role('learner', rate('ostar_events_total', ACCEPTED))})", "read"),
                min=0,
            ),
            timeseries(
                "Samples that wait",
                "short",
                "Samples in the topic that the learner has not read yet.",
                query(f"sum({of_role('learner', metric('ostar_consumer_lag_records'))})", "waiting"),
                min=0,
            ),
            timeseries(
                "Samples that are passed over",
                "cps",
                "Of another bundle, or unreadable: ostar_events_rejected_total says which.",
                query(f"sum({of_role('learner', rate('ostar_events_total', REJECTED))})", "passed over"),
                min=0,
            ),
        ],
    ),
)
