"""A dashboard around its panels: variables, links and positions."""

import json

from .panels import DATASOURCE

WIDTH = 24


def dashboard(name, title, description, *rows):
    """Rows are (heading or None, height, panels); the panels of a row are equally wide."""
    panels = list(placed(rows))
    variables = [datasource(), *(chosen(*texts) for texts in CHOICES)]
    if "$class" not in json.dumps(panels):
        variables.pop()
    return {
        "uid": f"ostard-{name}",
        "title": f"ostard / {title}",
        "description": description,
        "tags": ["ostard"],
        "editable": False,
        "graphTooltip": 1,
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": [firing()]},
        "links": [others()],
        "templating": {"list": variables},
        "panels": panels,
    }


def placed(rows):
    """Panels with id and position, under the headings of their rows."""
    number, top = 1, 0
    for heading, height, panels in rows:
        if heading:
            place = {"x": 0, "y": top, "w": WIDTH, "h": 1}
            yield {"id": number, "type": "row", "title": heading, "collapsed": False, "gridPos": place, "panels": []}
            number, top = number + 1, top + 1
        width = WIDTH // len(panels)
        for column, panel in enumerate(panels):
            place = {"x": column * width, "y": top, "w": width, "h": height}
            yield {"id": number, "gridPos": place} | panel
            number += 1
        top += height


# Variables that list label values: name, label, query.
CHOICES = [
    ("job", "Job", "label_values(ostar_build_info, job)"),
    ("instance", "Instance", 'label_values(ostar_build_info{job=~"$job"}, instance)'),
    (
        "class",
        "Class",
        'label_values(ostar_label_proportion{job=~"$job", instance=~"$instance", candidate="training"}, class)',
    ),
]


def chosen(name, label, query):
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "includeAll": True,
        "allValue": ".+",
        "multi": True,
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        # Refresh when the time range changes.
        "refresh": 2,
        "sort": 1,
    }


def datasource():
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "current": {"text": "default", "value": "default"},
        "refresh": 1,
    }


def others():
    return {
        "title": "ostard",
        "type": "dashboards",
        "icon": "dashboard",
        "tooltip": "The other dashboards of ostard",
        "tags": ["ostard"],
        "asDropdown": True,
        "includeVars": True,
        "keepTime": True,
    }


def firing():
    """Annotations where an alert of dashboards/rules fired."""
    return {
        "name": "Alerts",
        "datasource": DATASOURCE,
        "enable": True,
        "hide": False,
        "iconColor": "red",
        "expr": 'ALERTS{alertname=~"Ostard.+", alertstate="firing", severity!="info"}',
        "titleFormat": "{{alertname}}",
        "textFormat": "{{instance}} {{class}}",
    }
