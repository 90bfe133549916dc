"""The learner's health: pace, losses, checkpoints."""

from .dashboard import dashboard
from .panels import GREEN, YELLOW, named, query, states, timeseries
from .promql import increase, metric, quantile, rate, total

DASHBOARD = dashboard(
    "learner",
    "Learner health",
    "Whether the learner keeps up with the stream, learns, and saves what it has learned.",
    (
        "Does it keep up?",
        8,
        [
            timeseries(
                "Events learned from",
                "cps",
                "Events per second that were read, and that were learned from. The learner takes whole blocks.",
                query(total(rate("ostar_events_total", 'outcome="accepted"'), by="instance"), "read {{instance}}"),
                query(total(rate("ostar_learned_events_total"), by="instance"), "learned {{instance}}"),
                min=0,
            ),
            timeseries(
                "Steps",
                "ops",
                "Alignment steps per second that were taken, and that were skipped because the learner was behind.",
                query(total(rate("ostar_steps_total"), by="instance"), "taken {{instance}}"),
                query(total(rate("ostar_steps_skipped_total"), by="instance"), "skipped {{instance}}"),
                min=0,
            ),
            timeseries(
                "Waiting chunks",
                "none",
                "Chunks of events that were read and wait for the learner or the outputs. At 16 that part holds reading "
                "back and lag grows.",
                query(metric("ostar_waiting_chunks"), "{{part}} {{instance}}"),
                limit=16,
                min=0,
            ),
            timeseries(
                "Time of a step",
                "s",
                "Median and 99th percentile of one alignment step.",
                query(quantile(0.5, "ostar_step_duration_seconds"), "median"),
                query(quantile(0.99, "ostar_step_duration_seconds"), "99 %"),
                min=0,
            ),
        ],
    ),
    (
        None,
        6,
        [
            timeseries(
                "Blocks",
                "ops",
                "Blocks per second. Shares are estimated after each block.",
                query(total(rate("ostar_blocks_total"), by="instance"), "{{instance}}"),
                min=0,
            ),
            states(
                "Learning",
                "Whether alignment is paused (`ostard ctl pause`). The shares follow the stream while it is.",
                query(metric("ostar_paused"), "{{instance}}"),
                mappings=named(_0=("learning", GREEN), _1=("paused", YELLOW)),
            ),
            states(
                "Role",
                "A standby serves the newest checkpoint while another process learns, and takes over when that process ends.",
                query(metric("ostar_standby"), "{{instance}}"),
                mappings=named(_0=("learner", GREEN), _1=("standby", YELLOW)),
            ),
        ],
    ),
    (
        "Does it learn?",
        8,
        [
            timeseries(
                "Critic",
                "none",
                "Loss of the critic, and its estimate of the distance between mapped source rows and the stream.",
                query(metric("ostar_critic_loss"), "loss {{instance}}"),
                query(metric("ostar_critic_distance"), "distance {{instance}}"),
            ),
            timeseries(
                "Gradient penalty",
                "none",
                "Gradient penalty of the last critic step. If it grows without bound, learning diverges.",
                query(metric("ostar_gradient_penalty"), "{{instance}}"),
            ),
            timeseries(
                "Adapted classifier",
                "none",
                "Loss of the adapted classifier's last step, and its largest input gradient on the window.",
                query(metric("ostar_classifier_loss"), "loss {{instance}}"),
                query(metric("ostar_classifier_slope"), "slope {{instance}}"),
            ),
            timeseries(
                "Faults",
                "none",
                "Measured values that were NaN or infinite, and restores of the last good weights.",
                query(total(increase("ostar_non_finite_values_total"), by="instance"), "not finite {{instance}}"),
                query(total(increase("ostar_restores_total"), by="instance"), "restored {{instance}}"),
                min=0,
            ),
        ],
    ),
    (
        "Is it saved?",
        7,
        [
            timeseries(
                "Age of the newest checkpoint",
                "s",
                "Time since this process wrote its newest checkpoint.",
                query(f"time() - {metric('ostar_checkpoint_last_timestamp_seconds')}", "{{instance}}"),
                min=0,
            ),
            timeseries(
                "Unsaved events",
                "short",
                "Events learned since the newest checkpoint. A restart learns them again. A checkpoint is due every "
                "checkpoints.every_events.",
                query(metric("ostar_unsaved_events"), "unsaved {{instance}}"),
                query(metric("ostar_checkpoint_every_events"), "due {{instance}}"),
                min=0,
            ),
        ],
    ),
    (
        None,
        7,
        [
            timeseries(
                "Checkpoints",
                "none",
                "Checkpoints that were written, and that failed.",
                query(total(increase("ostar_checkpoints_written_total"), by="instance"), "written {{instance}}"),
                query(total(increase("ostar_checkpoint_failures_total"), by="instance"), "failed {{instance}}"),
                min=0,
            ),
            timeseries(
                "Time to write a checkpoint",
                "s",
                "99th percentile. Learning waits while a checkpoint is written; serving does not.",
                query(quantile(0.99, "ostar_checkpoint_duration_seconds"), "99 %"),
                min=0,
            ),
            timeseries(
                "Size of a checkpoint",
                "bytes",
                "Size of the newest checkpoint.",
                query(metric("ostar_checkpoint_size_bytes"), "{{instance}}"),
                min=0,
            ),
        ],
    ),
)
