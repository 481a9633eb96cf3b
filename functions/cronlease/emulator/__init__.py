"""What a developer needs to watch a function run: PostgreSQL, sample feeds, a scheduler. Never deployed."""
