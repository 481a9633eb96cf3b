"""The same openings as each kind of JSON feed writes them. A function per kind: a request in, a document out."""

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from cronlease.emulator.samples import Sample

# Of the feeds that decide it themselves; so few that there is a second page.
_ON_A_PAGE = 5
_JSON_FEED = "https://jsonfeed.org/version/1.1"


class Asked(NamedTuple):
    """What one request asks of a board: its openings now, its address without the query, and the query."""

    board: str
    openings: Sequence[Sample]
    address: str
    query: Mapping[str, str]

    def number(self, name: str, default: int) -> int:
        given = self.query.get(name, "")
        return int(given) if given.isdecimal() and given.isascii() else default

    def slice(self, offset: str, limit: str, default: int = 100) -> Sequence[Sample]:
        start = self.number(offset, 0)
        return self.openings[start : start + self.number(limit, default)]


def is_first_page(query: Mapping[str, str]) -> bool:
    skipped = (query.get(name, "0") for name in ("skip", "offset", "$offset"))
    return all(number == "0" for number in skipped) and query.get("page", "1") == "1"


def greenhouse(asked: Asked) -> Any:
    jobs = [
        {
            "id": one.identity,
            "internal_job_id": one.identity - 900_000,
            "title": one.title,
            "updated_at": one.updated_at.isoformat(),
            "first_published": one.posted_at.isoformat(),
            "requisition_id": f"R-{one.number}",
            "location": {"name": one.place},
            "absolute_url": f"https://boards.example/{asked.board}/jobs/{one.identity}",
            "metadata": None,
        }
        for one in asked.openings
    ]
    return {"jobs": jobs, "meta": {"total": len(jobs)}}


def lever(asked: Asked) -> Any:
    """A bare array; the page that is shorter than the limit is the last."""
    return [_posting(asked.board, one) for one in asked.slice("skip", "limit")]


def _posting(board: str, one: Sample) -> Any:
    identity = _uuid(board, one)
    return {
        "id": identity,
        "text": one.title,
        "categories": {"location": one.place, "commitment": "Full-time", "allLocations": [one.place]},
        "country": one.country_code or None,
        "workplaceType": "remote" if one.remote else "on-site",
        "createdAt": int(one.posted_at.timestamp() * 1000),
        "hostedUrl": f"https://lever.example/{board}/{identity}",
        "applyUrl": f"https://lever.example/{board}/{identity}/apply",
    }


def ashby(asked: Asked) -> Any:
    """Every fifth job is not listed: a reader must leave it out."""
    jobs: list[Any] = [
        {
            "id": _uuid(asked.board, one),
            "title": one.title,
            "department": "Operations",
            "team": "Platform",
            "employmentType": "FullTime",
            "location": one.place,
            "secondaryLocations": [],
            "isRemote": one.remote or None,
            "workplaceType": "Remote" if one.remote else "OnSite",
            "publishedAt": one.posted_at.isoformat(timespec="milliseconds"),
            "isListed": one.number % 5 > 0,
            "jobUrl": f"https://ashby.example/{asked.board}/{_uuid(asked.board, one)}",
            "applyUrl": f"https://ashby.example/{asked.board}/{_uuid(asked.board, one)}/application",
        }
        for one in asked.openings
    ]
    return {"apiVersion": "1", "jobs": jobs}


def smartrecruiters(asked: Asked) -> Any:
    content = [
        {
            "id": f"7440000{one.identity}",
            "uuid": _uuid(asked.board, one),
            "name": one.title,
            "refNumber": f"REF{one.number}X",
            "company": {"identifier": asked.board, "name": asked.board.title()},
            "releasedDate": _with_z(one.posted_at),
            "location": {"city": one.city, "country": one.country_code.lower() or None, "remote": one.remote},
            "typeOfEmployment": {"label": "Full-time"},
            "ref": f"https://smartrecruiters.example/v1/companies/{asked.board}/postings/7440000{one.identity}",
        }
        for one in asked.slice("offset", "limit", default=10)
    ]
    limit, offset = asked.number("limit", 10), asked.number("offset", 0)
    return {"limit": limit, "offset": offset, "totalFound": len(asked.openings), "content": content}


def recruitee(asked: Asked) -> Any:
    offers = [
        {
            "id": one.identity,
            "slug": f"opening-{one.number}",
            "title": one.title,
            "company_name": asked.board.title(),
            "department": "Kitchen",
            "location": one.place,
            "city": one.city,
            "country_code": one.country_code,
            "remote": one.remote,
            "employment_type_code": "fulltime_permanent",
            "careers_url": f"https://{asked.board}.example/o/opening-{one.number}",
            "careers_apply_url": f"https://{asked.board}.example/o/opening-{one.number}/c/new",
            "status": "published",
            "published_at": f"{one.posted_at:%Y-%m-%d %H:%M:%S} UTC",
            "created_at": f"{one.posted_at:%Y-%m-%d %H:%M:%S} UTC",
        }
        for one in asked.openings
    ]
    return {"offers": offers}


def workable(asked: Asked) -> Any:
    return {"name": asked.board.title(), "description": None, "jobs": [_widget_job(one) for one in asked.openings]}


def _widget_job(one: Sample) -> Any:
    code = f"{one.identity:010X}"
    place = {"country": one.country, "countryCode": one.country_code, "city": one.city, "region": "", "hidden": False}
    return {
        "title": one.title,
        "shortcode": code,
        "code": f"R-{one.number}",
        "employment_type": "Part-time",
        "telecommuting": one.remote,
        "department": "Retail",
        "url": f"https://workable.example/j/{code}",
        "application_url": f"https://workable.example/j/{code}/apply",
        "published_on": f"{one.posted_at:%Y-%m-%d}",
        "created_at": f"{one.posted_at:%Y-%m-%d}",
        "country": one.country,
        "city": one.city,
        "locations": [place],
    }


def teamtailor(asked: Asked) -> Any:
    """A JSON Feed whose places are in the vendor's own key."""
    feed = jsonfeed(asked)
    for item, one in zip(feed["items"], _page(asked), strict=True):
        address = {"addressLocality": one.city, "addressCountry": one.country_code}
        item["_jobposting"] = {
            "@type": "JobPosting",
            "datePosted": f"{one.posted_at:%Y-%m-%d}",
            "jobLocation": [{"@type": "Place", "address": address}],
        }
    return feed


def jsonfeed(asked: Asked) -> Any:
    items = [
        {
            "id": str(one.identity),
            "url": f"https://{asked.board}.example/jobs/{one.identity}",
            "title": one.title,
            "content_html": f"<p>{one.place}</p>",
            "date_published": one.posted_at.isoformat(),
            "date_modified": one.updated_at.isoformat(),
        }
        for one in _page(asked)
    ]
    feed = {"version": _JSON_FEED, "title": f"{asked.board.title()} jobs", "items": items}
    page = asked.number("page", 1)
    if page * _ON_A_PAGE < len(asked.openings):
        feed["next_url"] = f"{asked.address}?page={page + 1}"
    return feed


def _page(asked: Asked) -> Sequence[Sample]:
    start = (max(asked.number("page", 1), 1) - 1) * _ON_A_PAGE
    return asked.openings[start : start + _ON_A_PAGE]


def socrata(asked: Asked) -> Any:
    """Licences of a city. Every value is a string, and the row's own ID is there only when it is asked for."""
    rows = [
        {
            ":id": f"row-{one.identity}",
            "license_nbr": f"{one.identity}-DCA",
            "business_name": f"{one.title.upper()} {one.number} LLC",
            "license_status": "Active",
            "license_creation_date": one.posted_at.replace(tzinfo=None).isoformat(timespec="milliseconds"),
            "address_city": one.city.upper(),
        }
        for one in asked.slice("$offset", "$limit", default=1000)
    ]
    with_id = ":*" in asked.query.get("$select", "").split(",")
    return [{name: value for name, value in row.items() if with_id or name != ":id"} for row in rows]


def _uuid(board: str, one: Sample) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{board}/{one.identity}"))


def _with_z(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S}.000Z"
