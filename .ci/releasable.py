"""Says what keeps this commit from being released as a tag; then the exit status is 1.

python .ci/releasable.py v0.2.0 https://the.host/owner/repository
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def missing(tag: str, repository: str, root: Path = ROOT) -> list[str]:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    version, urls = project["version"], project.get("urls", {})
    changelog = (root / "CHANGELOG.md").read_text()
    lacks = []
    if tag != f"v{version}":
        lacks.append(f"the tag is {tag}, but pyproject.toml has version {version}")
    if not re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE):
        lacks.append(f"CHANGELOG.md has no line '## [{version}] - <date>'")
    if urls.get("Repository") != repository:
        lacks.append(f'pyproject.toml needs, under [project.urls], Repository = "{repository}"')
    return lacks


if __name__ == "__main__":
    sys.exit("\n".join(missing(*sys.argv[1:])) or 0)
