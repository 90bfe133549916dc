"""Panels in Grafana's JSON: one function per kind."""

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}

GREEN, YELLOW, RED, BLUE, GREY = "green", "yellow", "red", "blue", "#8e8e8e"


def query(expression, legend):
    """A query and the legend of its series."""
    return {"expr": expression, "legendFormat": legend, "datasource": DATASOURCE}


def instant(expression, legend):
    """A query of the last value only."""
    return query(expression, legend) | {"instant": True, "range": False}


def timeseries(title, unit, description, *queries, overrides=(), limit=None, **defaults):
    """Lines over time. `limit` draws a threshold."""
    custom = {"lineWidth": 1, "fillOpacity": 5, "showPoints": "never", "spanNulls": False}
    thresholds = steps((None, GREEN))
    if limit is not None:
        custom["thresholdsStyle"] = {"mode": "dashed"}
        thresholds = steps((None, "transparent"), (limit, RED))
    fields = {"custom": custom, "thresholds": thresholds, "color": {"mode": "palette-classic"}}
    options = {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    return panel("timeseries", title, unit, description, queries, options, fields | defaults, overrides)


def stat(title, unit, description, *queries, thresholds=((None, BLUE),), mappings=(), text="auto", **defaults):
    """One number per series."""
    fields = {"thresholds": steps(*thresholds), "mappings": list(mappings), "color": {"mode": "thresholds"}}
    options = {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "colorMode": "value",
        "graphMode": "none",
        "justifyMode": "auto",
        "orientation": "auto",
        "textMode": text,
    }
    return panel("stat", title, unit, description, queries, options, fields | defaults)


def states(title, description, *queries, mappings):
    """The state of each series over time."""
    fields = {
        "custom": {"fillOpacity": 80, "lineWidth": 0},
        "mappings": list(mappings),
        "color": {"mode": "thresholds"},
        "thresholds": steps((None, GREY)),
    }
    options = {
        "mergeValues": True,
        "showValue": "auto",
        "alignValue": "left",
        "rowHeight": 0.8,
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": False},
        "tooltip": {"mode": "single", "sort": "none"},
    }
    return panel("state-timeline", title, "none", description, queries, options, fields)


def alerts(title, description):
    """A list of the firing and pending alerts of dashboards/rules."""
    options = {
        "alertName": "Ostard",
        "dashboardAlerts": False,
        "groupMode": "default",
        "maxItems": 20,
        "sortOrder": 3,
        "stateFilter": {"error": True, "firing": True, "noData": False, "normal": False, "pending": True},
        "viewMode": "list",
    }
    return {"type": "alertlist", "title": title, "description": description, "options": options}


def panel(kind, title, unit, description, queries, options, fields, overrides=()):
    """The keys that all panels with queries share."""
    targets = [{"refId": chr(ord("A") + number)} | target for number, target in enumerate(queries)]
    return {
        "type": kind,
        "title": title,
        "description": description,
        "datasource": DATASOURCE,
        "targets": targets,
        "fieldConfig": {"defaults": {"unit": unit} | fields, "overrides": list(overrides)},
        "options": options,
    }


def repeated(variable, template):
    """The panel once per selected value of a variable, three per row."""
    return template | {"repeat": variable, "repeatDirection": "h", "maxPerRow": 3}


def steps(*pairs):
    """Thresholds: a colour from each value on. The first value must be None."""
    return {"mode": "absolute", "steps": [{"value": value, "color": color} for value, color in pairs]}


def named(**states):
    """Texts and colours for whole numbers: `named(_0=("no", RED), _1=("yes", GREEN))`."""
    options = {
        value.removeprefix("_"): {"text": text, "color": color, "index": index}
        for index, (value, (text, color)) in enumerate(states.items())
    }
    return [{"type": "value", "options": options}]


def override(name, **properties):
    """Overrides the look of one series; `custom__lineWidth` means custom.lineWidth."""
    listed = [{"id": key.replace("__", "."), "value": value} for key, value in properties.items()]
    return {"matcher": {"id": "byName", "options": name}, "properties": listed}


def dashed(name, color=GREY):
    """A dashed reference line."""
    style = {"fill": "dash", "dash": [8, 6]}
    return override(name, custom__lineStyle=style, custom__fillOpacity=0, color={"mode": "fixed", "fixedColor": color})


def band(low, high, color=BLUE):
    """Fills the area between two series, without drawing their lines."""
    fixed = {"mode": "fixed", "fixedColor": color}
    edge = {"custom__lineWidth": 0, "color": fixed}
    return [
        override(low, custom__fillOpacity=0, **edge),
        override(high, custom__fillBelowTo=low, custom__fillOpacity=20, **edge),
    ]
