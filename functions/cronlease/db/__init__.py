"""The way to the database: connections, one typed function per SQL function, and what an error means."""
