"""Compiled operators: optional, chosen by processor and environment, equal to the readable versions in `layers`."""
