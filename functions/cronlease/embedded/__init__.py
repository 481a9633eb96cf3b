"""The PostgreSQL of a wheel, for a person's own machine and for tests."""
