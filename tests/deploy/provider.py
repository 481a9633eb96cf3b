"""The provider's schema, read from the Python package that is generated from it: which arguments and blocks a
resource has, which it must have, and what it exports. Nothing of the package is imported, its text is enough."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

PACKAGE = "cdktf_cdktf_provider_google"


class Block(NamedTuple):
    """The arguments of a resource or of a block in it; `blocks` names the class of those that are blocks."""

    arguments: frozenset[str]
    required: frozenset[str]
    blocks: dict[str, str]


class Resource(NamedTuple):
    top: Block
    classes: dict[str, Block]
    attributes: frozenset[str]


@cache
def resource(package: Path, kind: str) -> Resource | None:
    """The resource `google_...`, or None where the provider has no such thing."""
    file = package / kind.removeprefix("google_") / "__init__.py"
    if not file.is_file():
        return None
    nodes = {node.name: node for node in ast.parse(file.read_text()).body if isinstance(node, ast.ClassDef)}
    blocks = {name: block for name, node in nodes.items() if (block := _block(node, set(nodes)))}
    # The one that takes the meta-arguments, too, describes the resource itself.
    top = next(name for name, block in blocks.items() if name.endswith("Config") and "for_each" in block.arguments)
    methods = [node for node in nodes[top.removesuffix("Config")].body if isinstance(node, ast.FunctionDef)]
    return Resource(blocks[top], blocks, frozenset(method.name for method in methods))


def _block(node: ast.ClassDef, known: set[str]) -> Block | None:
    made = next((f for f in node.body if isinstance(f, ast.FunctionDef) and f.name == "__init__"), None)
    if made is None:
        return None
    pairs = list(zip(made.args.kwonlyargs, made.args.kw_defaults, strict=True))
    blocks = {}
    for argument, _ in pairs:
        words = re.findall(r"\w+", ast.unparse(argument.annotation) if argument.annotation else "")
        if inner := [word for word in words if word in known]:
            blocks[argument.arg] = inner[0]
    return Block(
        frozenset(argument.arg for argument, _ in pairs),
        frozenset(argument.arg for argument, default in pairs if default is None),
        blocks,
    )
