"""Openings and sources in the database: the only part of the job that has SQL."""
