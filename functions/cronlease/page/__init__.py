"""The status page: templates and what fills them. No hit imports it. Knows nothing of HTTP or of who may see it."""
