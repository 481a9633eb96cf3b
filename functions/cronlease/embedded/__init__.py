"""A PostgreSQL from a wheel, for a developer's own machine and for tests."""
