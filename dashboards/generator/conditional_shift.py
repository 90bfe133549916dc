"""Whether the classes themselves have changed, and how far the map moves each of them."""

from .dashboard import dashboard
from .panels import BLUE, GREEN, GREY, RED, YELLOW, dashed, named, query, states, timeseries
from .promql import CLASS, distance, increase, metric, rate, total

DASHBOARD = dashboard(
    "conditional-shift",
    "Conditional shift",
    "Whether the classes have changed shape, and whether the map from source to stream follows them.",
    (
        "What the gate decides",
        8,
        [
            timeseries(
                "Tests over their limits",
                "none",
                "Each test compares the stream with held-out rows at the stream's shares. Above 1 label shift does not "
                "explain the stream, and mode auto serves the frozen model.",
                query(f"{metric('ostar_gate_statistic')} / {metric('ostar_gate_limit')}", "{{test}} {{instance}}"),
                limit=1,
                min=0,
            ),
            states(
                "Choice of mode auto",
                "The candidate that mode auto serves. `ostard state --why` and the live page say why.",
                query(f"{metric('ostar_gate_candidate')}", "{{candidate}} {{instance}}"),
                mappings=named(_0=("-", GREY), _1=("chosen", BLUE)),
            ),
            states(
                "What is known",
                "Whether the shares can be told, and whether the adapted model explains what label shift does not.",
                query(metric("ostar_proportions_known"), "shares {{instance}}"),
                query(metric("ostar_gate_adapted_ready"), "adapted model {{instance}}"),
                mappings=named(_0=("no", YELLOW), _1=("yes", GREEN)),
            ),
            timeseries(
                "Inputs beyond training's range",
                "none",
                "Values a second that were clipped to the range seen in training. Many at once point to a broken field "
                "upstream, not to a moved class.",
                query(total(rate("ostar_clipped_values_total"), by="instance"), "{{instance}}"),
                min=0,
            ),
        ],
    ),
    (
        "Have the classes changed?",
        9,
        [
            timeseries(
                "Distance of source and stream",
                "none",
                "Sliced Wasserstein distance between the source, weighted to the stream's shares, and the stream. The distance "
                "before the map is what label shift does not explain; the distance after it is not learned yet.",
                query(f"max({distance('before_map')})", "before the map"),
                query(f"max({distance('after_map')})", "after the map"),
                query(f"max({distance('noise_floor')})", "noise floor"),
                overrides=[dashed("noise floor")],
                min=0,
            ),
            timeseries(
                "Distance over noise floor",
                "none",
                "1 is what sampling noise alone gives. The gate's tests, not this distance, decide when OstardClassesChanged fires.",
                query(
                    f"{distance('before_map')} / ignoring (stage) {distance('noise_floor')}", "before the map {{instance}}"
                ),
                query(f"{distance('after_map')} / ignoring (stage) {distance('noise_floor')}", "after the map {{instance}}"),
                limit=2,
                min=0,
            ),
        ],
    ),
    (
        "Class by class",
        9,
        [
            timeseries(
                "Movement over separation",
                "percentunit",
                "Mean squared movement of the class, divided by the squared distance to the nearest other class. Above "
                "learner.method.guard.movement_ratio (default 0.25) the guard refuses, unless label shift alone cannot "
                "explain the stream. The largest is of all classes, also of those without a series.",
                query(metric("ostar_class_movement_ratio", CLASS), "{{class}} {{instance}}"),
                query(metric("ostar_largest_class_movement_ratio"), "largest {{instance}}"),
                limit=0.25,
                min=0,
            ),
            timeseries(
                "Movement",
                "none",
                "Mean squared distance by which the map moves the class, in units of the latent space.",
                query(metric("ostar_class_movement", CLASS), "{{class}} {{instance}}"),
                min=0,
            ),
            states(
                "Clusters keep their classes",
                "Whether every cluster of the window is nearest to its own class. If not, the map may have swapped classes.",
                query(metric("ostar_clusters_keep_classes"), "{{instance}}"),
                mappings=named(_0=("swapped", RED), _1=("kept", GREEN)),
            ),
        ],
    ),
    (
        "How the map is learned",
        8,
        [
            timeseries(
                "Transport cost",
                "none",
                "Mean squared movement in the last map step, and its weight in the loss.",
                query(metric("ostar_transport_cost"), "cost {{instance}}"),
                query(metric("ostar_transport_weight"), "weight {{instance}}"),
            ),
            timeseries(
                "Held-out cross-entropy",
                "none",
                "On held-out source rows: of the frozen classifier, and of the adapted one on mapped rows. The guard "
                "refuses if the adapted one is worse by more than learner.method.guard.cross_entropy_margin.",
                query(metric("ostar_held_out_cross_entropy"), "{{candidate}} {{instance}}"),
                min=0,
            ),
            timeseries(
                "Refusals for movement",
                "none",
                "Adapted states that the guard refused because the map moved or deformed a class too far.",
                query(
                    total(increase("ostar_guard_refusals_total", 'reason=~"class_.+"'), by="reason"), "{{reason}}"
                ),
                min=0,
            ),
        ],
    ),
)
