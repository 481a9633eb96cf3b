"""Fetches pages, within bounds and only from where a source may lead. Knows nothing of what is in them."""
