"""The one error a source may end in."""


class FeedError(Exception):
    """This source gave nothing that can be used; the text says why and holds no address and no secret."""
