"""The kinds of feed there are. A new one is a module beside this one and a line below."""

from opening_signals.sources import greenhouse
from opening_signals.sources.kind import Kind

KINDS: dict[str, Kind] = {
    "greenhouse": greenhouse.KIND,
}
