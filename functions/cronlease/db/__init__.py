"""The way to the database: connections, one typed function per SQL function, and what an error means.

Of what a deployed function runs, only this package imports psycopg, and sqlalchemy.py for users of SQLAlchemy.
"""
