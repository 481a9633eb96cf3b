"""Fetches pages, within bounds and only from allowed addresses. Knows nothing of their content."""
