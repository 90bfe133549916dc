"""Writes the Grafana dashboards: `python3 -m generator` in this folder's parent, or `make dashboards`."""
