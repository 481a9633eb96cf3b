"""A FastAPI application with a timed function in it: deletes expired sessions every hour.

uvicorn in_fastapi:app
curl -X POST http://127.0.0.1:8000/cron/delete_expired_sessions
"""

from fastapi import FastAPI

import cronlease
from cronlease import Run, scheduled


@scheduled(every="1h")
async def delete_expired_sessions(run: Run) -> None:
    async with run.commit() as conn:
        deleted = await conn.execute("delete from sessions where expires_at < now()")
        run.report(closed=deleted.rowcount)


cron = cronlease.asgi()
app = FastAPI(lifespan=cron.lifespan)
app.mount("/cron", cron)


@app.get("/hello")
async def hello() -> str:
    return "hello"
