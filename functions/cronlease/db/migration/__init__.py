"""Brings a database up to schema/, adopts older ones, and says how far one is from it."""
