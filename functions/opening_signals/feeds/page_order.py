"""Whether the pages of one reading fit together. Pure; items are identified by hashes.

A board may change between two requests: when an item disappears from a page that was read already, the first items of
the next page move to that page and are missed. To detect this, a page is requested so that it begins with the last
item of the page before it (an anchor). Where that is impossible, a second reading has to be equal page by page.
"""

MOVED = "its items moved between its pages while it was read"
REPEATED = "an id came on two of its pages"
RESTLESS = "its items moved between its pages from one reading to the next"


class PageOrder:
    """The pages of one reading in their order. `doubt` says why items may be missing; `total` is the largest of any
    page, since some vendors say 0 on later pages; `is_anchored` while each page was checked against the one before
    it. `items` counts those of the current page, the anchor included."""

    def __init__(self) -> None:
        self.doubt: str | None = None
        self.total = 0
        self.is_anchored = True
        self.items = 0
        self._pages: list[int] = []
        self._seen: set[int] = set()
        self._last: int | None = None
        self._awaited: int | None = None
        self._is_checked = False
        self._begins = True
        self._page = 0

    @property
    def adds_nothing(self) -> bool:
        """Whether the page had at most its anchor."""
        return self._is_checked and self.items <= 1

    @property
    def pages(self) -> tuple[int, ...]:
        """Equal for two readings exactly when they had the same items on the same pages."""
        return tuple(self._pages)

    def begin(self, *, anchored: bool) -> None:
        """A page begins; anchored if it should begin with the last item of the page before."""
        self._awaited = self._last if anchored else None
        self._is_checked = anchored
        if self._pages and not anchored:
            self.is_anchored = False
        self._begins = True
        self._page = self.items = 0

    def give_up_anchors(self) -> None:
        """The server does not begin pages where it is asked to: a missing anchor means nothing."""
        self.is_anchored = False
        if self.doubt == MOVED:
            self.doubt = None

    def note(self, item: int) -> bool:
        """Notes the next item of the page; returns whether it is the anchor."""
        begins, self._begins = self._begins, False
        self.items += 1
        if begins and self._awaited is not None:
            if item == self._awaited:
                self._awaited = None
                return True
            self.doubt = MOVED
        self._page = hash((self._page, item))
        self._last = item
        return False

    def end(self, total: int | None) -> bool:
        """The page is over; returns False if an earlier page was the same."""
        if self._begins and self._awaited is not None:
            self.doubt = MOVED
        if total and self.total and total != self.total:
            self.doubt = f"its total changed from {self.total} to {total} while it was read"
        self.total = max(self.total, total or 0)
        if self._page and self._page in self._seen:
            return False
        self._seen.add(self._page)
        self._pages.append(self._page)
        return True

    def finish(self, items: int, *, repeated: int) -> None:
        """The reading is over, with this many distinct items and this many ids on more than one page."""
        if repeated:
            self.doubt = self.doubt or REPEATED
        if items < self.total:
            self.doubt = f"only {items} of {self.total} items came"
