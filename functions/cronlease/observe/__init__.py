"""How others learn of runs: logs, OpenTelemetry, check-ins, alerts."""
