"""What `cronlease doctor` looks at."""
