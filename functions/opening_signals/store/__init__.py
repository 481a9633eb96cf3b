"""Openings and sources in the database."""
