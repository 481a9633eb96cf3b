"""The way to the database: connections, one typed function per SQL function, and what an error means.

Only this room knows psycopg, and sqlalchemy.py, which serves its users.
"""
