"""What can stand between us and the wall. Each text is fit for a log and holds no secret.

DatabaseTrouble
 +-- ConnectionLost     the connection broke under a query; what it did is unknown
 +-- Unreachable        no connection could be had
 +-- Contended          somebody else has the row right now
 +-- SchemaMissing      our functions, tables or columns are not there
 +-- NotPermitted       this role may not do that
 +-- UnknownSchedule    no row of that name
 +-- AlreadyThere       a row of that name exists
 +-- NameTaken          a command or a block without a cadence has the name of a function's schedule
 +-- StillRunning       not while a run holds the row's lease
 +-- Mismatch           a function or view cannot be replaced in place (migrate)
 +-- LeaseLost          the lease is not, or no longer, this run's
 +-- Ambiguous          somebody else's function has the name of ours, and fits as well
 +-- CommitUnknown      the commit was sent and its answer never came
 +-- NoneFree           all connections that jobs may have are in use, and this job holds one of them
 +-- LeftOutside        a block was left outside the transaction that it opened
 +-- Unreadable         an answer came, and it holds what Python cannot read
TimeIsUp                the run is older than CRONLEASE_MAX_RUN allows
SaysAll                 the text says it all: where in our code it was raised tells nobody more
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
