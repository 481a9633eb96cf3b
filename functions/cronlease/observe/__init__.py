"""What others are told: logs, OpenTelemetry, check-ins."""
