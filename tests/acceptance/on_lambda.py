"""What a user would deploy to AWS Lambda: the handlers, beside the functions that they run."""

import cronlease
from tests.acceptance import jobs

tick = cronlease.aws_lambda(jobs.tick)
tock = cronlease.aws_lambda(jobs.tock)
