"""A handler for AWS Lambda: counts the visits of an hour, whenever EventBridge Scheduler says so.

The handler's name is lambda_handler.handler. Give the schedule this input; the first two name the delivery, so that a
repeat of it is skipped:

    {"schedule_arn": "<aws.scheduler.schedule-arn>", "scheduled_time": "<aws.scheduler.scheduled-time>",
     "args": {"until": "<aws.scheduler.scheduled-time>"}}
"""

import cronlease
from cronlease import Run, scheduled

COUNT = """
insert into visits_per_hour (until, page, visits)
select %(until)s, page, count(*)
from visits
where visited_at >= %(until)s::timestamptz - interval '1 hour' and visited_at < %(until)s
group by page
"""


@scheduled(every="hit")  # the schedule is EventBridge's: each delivery is run once
def count_visits(run: Run) -> None:
    with run.commit() as conn:
        counted = conn.execute(COUNT, {"until": run.args["until"]})
        run.report(inserted=counted.rowcount)


handler = cronlease.aws_lambda(count_visits)
