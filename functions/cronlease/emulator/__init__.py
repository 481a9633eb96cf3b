"""What a developer needs to watch a function run: PostgreSQL, sample feeds, a scheduler.

A deployed function never imports it.
"""
