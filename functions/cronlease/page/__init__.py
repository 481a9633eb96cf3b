"""The status page: templates and what fills them. Imported by no hit; knows nothing of HTTP and of who may see it."""
