"""The way to the database: connections, one typed function per SQL function, and what an error means.

Only this room knows psycopg, apart from sqlalchemy.py, which serves the users of SQLAlchemy.
"""
