"""PromQL of the panels: every selector is limited to the selected jobs and instances."""

CHOSEN = 'job=~"$job", instance=~"$instance"'
CLASS = 'class=~"$class"'
SERVED = 'candidate="served"'
TRAINING = 'candidate="training"'


def metric(name, *matchers):
    """The series of a metric."""
    return f"{name}{{{', '.join([CHOSEN, *matchers])}}}"


def rate(name, *matchers):
    """Growth of a counter per second."""
    return f"rate({metric(name, *matchers)}[$__rate_interval])"


def increase(name, *matchers):
    """Growth of a counter since the previous point."""
    return f"increase({metric(name, *matchers)}[$__rate_interval])"


def total(expression, by=""):
    """The sum over instances."""
    return f"sum by ({by}) ({expression})" if by else f"sum({expression})"


def quantile(share, histogram, *matchers, by=""):
    """A quantile of a histogram over all instances."""
    buckets = total(rate(f"{histogram}_bucket", *matchers), by=f"le, {by}" if by else "le")
    return f"histogram_quantile({share}, {buckets})"


def of_role(role, expression):
    """The series of processes with a role."""
    members = metric("ostar_role_info", f'role="{role}"')
    return f"{expression} and on (job, instance) {members}"


def served(name):
    """The series of the candidate that is served. Shadow mode serves the frozen model, mode auto what the gate chose."""
    mode = metric("ostar_serving_mode") + " == 1"
    candidate = f'label_replace({mode}, "candidate", "$1", "mode", "(.+)")'
    candidate = f'label_replace({candidate}, "candidate", "frozen", "mode", "shadow")'
    chosen = metric("ostar_gate_candidate") + " == 1"
    auto = metric("ostar_serving_mode", 'mode="auto"') + " == 1"
    by_gate = f"{metric(name)} and ({chosen} and ignoring (candidate, mode) {auto})"
    return f"{metric(name)} and ignoring (mode) {candidate} or {by_gate}"


def distance(stage):
    """Sliced Wasserstein distance of source and stream at a stage."""
    return metric("ostar_sliced_distance", f'stage="{stage}"')


def moved():
    """Half the sum of the differences between the served shares and those of training, per instance; nothing while the
    shares are not known. From the shares by class it would be too small: the series `other` sums many of them."""
    return metric("ostar_distance_from_training")
