"""Greenhouse job boards: one JSON document with all the jobs, no paging. An unknown board answers 404."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict

from opening_signals.model import Opening, Source
from opening_signals.sources.kind import Kind, json_items


def _written(identity: Any) -> Any:
    # Not isinstance: True is an int, too.
    return str(identity) if type(identity) is int else identity


class _Place(BaseModel):
    model_config = ConfigDict(strict=True)

    name: str | None = None


class _Job(BaseModel):
    """The part of a job that we understand; all of it is kept as the payload."""

    model_config = ConfigDict(strict=True)

    id: Annotated[str, BeforeValidator(_written)]
    title: str
    absolute_url: str | None = None
    first_published: str | None = None
    company_name: str | None = None
    location: _Place | None = None


def items(body: bytes) -> list[Any]:
    return json_items(body, "jobs")


def opening(item: Any, source: Source) -> Opening:
    job = _Job.model_validate(item)
    return Opening.of(
        item,
        external_id=job.id,
        title=job.title,
        organization=source.organization or job.company_name,
        location=job.location and job.location.name,
        url=job.absolute_url,
        # Not updated_at: when it was last edited says nothing about when it was posted.
        posted_at=job.first_published,
    )


KIND = Kind("board", "https://boards-api.greenhouse.io/v1/boards/{}/jobs", items, opening)
