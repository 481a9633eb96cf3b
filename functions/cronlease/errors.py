"""Everything that can go wrong with the database. Each text is fit for a log and holds no secret.

DatabaseTrouble
 +-- ConnectionLost     the connection broke during a query, whose effect is unknown
 +-- Unreachable        no connection could be made
 +-- Contended          somebody else has the row right now
 +-- SchemaMissing      our functions, tables or columns are missing
 +-- NotPermitted       this role may not do that
 +-- UnknownSchedule    there is no row of that name
 +-- AlreadyThere       a row of that name exists
 +-- NameTaken          a command or a block without a cadence has the name of a function's schedule
 +-- StillRunning       impossible while a run holds the row's lease
 +-- Mismatch           a function or view cannot be replaced in place (migrate)
 +-- LeaseLost          the lease is not this run's, or no longer
 +-- Ambiguous          somebody else's function has the name of ours and fits the call just as well
 +-- CommitUnknown      the commit was sent, but its answer never came
 +-- NoneFree           all connections for jobs are in use, and this job holds one of them
 +-- LeftOutside        a block ended outside the transaction that it had opened
 +-- Unreadable         the answer has a value that Python cannot read
TimeIsUp                the run is older than CRONLEASE_MAX_RUN allows
SaysAll                 the text says it all: a traceback would add nothing
"""


class DatabaseTrouble(Exception): ...


class ConnectionLost(DatabaseTrouble): ...


class Unreachable(DatabaseTrouble): ...


class Contended(DatabaseTrouble): ...


class SchemaMissing(DatabaseTrouble): ...


class NotPermitted(DatabaseTrouble): ...


class UnknownSchedule(DatabaseTrouble): ...


class AlreadyThere(DatabaseTrouble): ...


class NameTaken(DatabaseTrouble, ValueError): ...


class StillRunning(DatabaseTrouble): ...


class Mismatch(DatabaseTrouble): ...


class LeaseLost(DatabaseTrouble): ...


class Ambiguous(DatabaseTrouble): ...


class CommitUnknown(DatabaseTrouble): ...


class NoneFree(DatabaseTrouble): ...


class LeftOutside(DatabaseTrouble): ...


class Unreadable(DatabaseTrouble): ...


class TimeIsUp(Exception): ...


class SaysAll(Exception): ...
