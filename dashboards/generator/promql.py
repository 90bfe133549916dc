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


def served(name):
    """The series of the candidate that is served. Shadow mode serves the frozen model."""
    mode = metric("ostar_serving_mode") + " == 1"
    candidate = f'label_replace({mode}, "candidate", "$1", "mode", "(.+)")'
    candidate = f'label_replace({candidate}, "candidate", "frozen", "mode", "shadow")'
    return f"{metric(name)} and ignoring (mode) {candidate}"


def distance(stage):
    """Sliced Wasserstein distance of source and stream at a stage."""
    return metric("ostar_sliced_distance", f'stage="{stage}"')


def moved():
    """Half the sum of the differences between the served shares and those of training, per instance."""
    served, training = (metric("ostar_label_proportion", candidate) for candidate in (SERVED, TRAINING))
    return f"sum without (class, candidate) (abs({served} - ignoring (candidate) {training})) / 2"
