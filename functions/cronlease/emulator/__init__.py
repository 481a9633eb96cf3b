"""What a person's machine needs to see it all run: PostgreSQL, sample feeds, a scheduler. Never deployed."""
