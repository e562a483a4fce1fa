"""Imports point one way, only build.py names concrete adapters, and nothing imports in a circle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import slipstream

PACKAGE = "slipstream"
LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"types", "errors", "call", "settings", "text"}),
    frozenset({"observe"}),
    frozenset({"runtime"}),
    frozenset({"models", "stores"}),
    frozenset({"cache"}),
    frozenset({"answer", "ingest"}),
    frozenset({"service"}),
    frozenset({"build"}),
    frozenset({"server"}),
    frozenset(
        {
            PACKAGE,
            "__main__",
            "bench",
            "cli",
            "commands",
            "demo",
            "demo_run",
            "doctor",
            "models_cli",
            "tune",
        }
    ),
)
"""Lowest first; a part imports from layers below its own. The parts of the lowest and of the highest
layer may import each other; elsewhere neighbours do not (models from stores, answer from ingest)."""

SEAMS = frozenset({"models", "stores"})
"""Packages of which others see `base` only, except those that pick adapters: build and the highest layer."""


@dataclass(frozen=True, slots=True)
class Import:
    importer: str
    imported: str
    line: int

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.imported}"


def modules(root: Path) -> dict[str, Path]:
    """Dotted module name → file, of the package whose directory is `root`."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(root: Path) -> list[Import]:
    """Every import of one of the package's modules by another, also inside functions."""
    known = modules(root)
    found = []
    for importer, path in known.items():
        package = importer if path.stem == "__init__" else importer.rpartition(".")[0]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
            for target in _targets(node, package, known):
                if target != importer:
                    found.append(Import(importer, target, getattr(node, "lineno", 0)))
    return found


def _targets(node: ast.AST, package: str, known: dict[str, Path]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name.split(".")[0] == PACKAGE)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            parents = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*parents, base] if base else parents)
        if base.split(".")[0] == PACKAGE:
            for alias in node.names:
                yield f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base


def part(module: str) -> str:
    """The first name below the package: what has a place in the order."""
    names = module.split(".")
    return names[1] if len(names) > 1 else PACKAGE


def layer(module: str) -> int | None:
    return next((number for number, parts in enumerate(LAYERS) if part(module) in parts), None)


def breaches(root: Path) -> list[str]:
    """What contradicts the order, one sentence each."""
    said = [
        f"{module} has no place in the order; give it one in LAYERS"
        for module in modules(root)
        if layer(module) is None
    ]
    for found in imports(root):
        importer, imported = layer(found.importer), layer(found.imported)
        if importer is None or imported is None:
            continue
        neighbours_may = importer in {0, len(LAYERS) - 1}
        same_part = part(found.importer) == part(found.imported)
        if imported > importer:
            said.append(f"{found}, which lies above it")
        elif imported == importer and not same_part and not neighbours_may:
            said.append(f"{found}, its neighbour")
        elif not same_part and _is_adapter(found.imported) and not _picks_adapters(found.importer):
            said.append(f"{found}: only build.py names adapters; use {part(found.imported)}/base.py")
    return said


def _is_adapter(module: str) -> bool:
    names = module.split(".")
    return part(module) in SEAMS and len(names) > 2 and names[2] != "base"


def _picks_adapters(module: str) -> bool:
    return part(module) == "build" or layer(module) == len(LAYERS) - 1


def cycle(root: Path) -> list[str]:
    """One circle of imports, or nothing."""
    graph: dict[str, set[str]] = {module: set() for module in modules(root)}
    for found in imports(root):
        if found.imported in graph:
            graph[found.importer].add(found.imported)
    done: set[str] = set()

    def visit(module: str, path: list[str]) -> list[str]:
        if module in path:
            return [*path[path.index(module) :], module]
        if module in done:
            return []
        for target in sorted(graph[module]):
            if circle := visit(target, [*path, module]):
                return circle
        done.add(module)
        return []

    for module in graph:
        if circle := visit(module, []):
            return circle
    return []


ROOT = Path(slipstream.__file__).parent


def test_imports_point_one_way() -> None:
    assert breaches(ROOT) == []


def test_nothing_imports_in_a_circle() -> None:
    assert cycle(ROOT) == []


def tree(tmp_path: Path, **sources: str) -> Path:
    """A package of the same name with the files given; `answer__fuse` is answer/fuse.py."""
    root = tmp_path / PACKAGE
    for name, source in sources.items():
        path = root.joinpath(*name.split("__")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    return root


TARGETS = {
    "types": "",
    "runtime__batcher": "",
    "models__base": "",
    "models__encoder": "",
    "stores__base": "",
    "stores__qdrant": "",
    "ingest__run": "",
    "server__app": "",
    "build": "",
}


@pytest.mark.parametrize(
    ("importer", "source", "said"),
    [
        ("types", "from slipstream.runtime import batcher", "lies above"),
        ("runtime__x", "import slipstream.models.base", "lies above"),
        ("runtime__x", "def f():\n    from slipstream.models.base import Encoder", "lies above"),
        ("answer__x", "from ..server.app import App", "lies above"),
        ("answer__x", "from slipstream.stores import qdrant", "only build.py"),
        ("answer__x", "from slipstream.models.encoder import E5", "only build.py"),
        ("server__x", "from slipstream.models.encoder import E5", "only build.py"),
        ("answer__x", "from slipstream.ingest.run import Run", "its neighbour"),
        ("stores__x", "from slipstream.models.base import Encoder", "its neighbour"),
        ("nowhere", "", "no place in the order"),
    ],
)
def test_a_breach_is_found(tmp_path: Path, importer: str, source: str, said: str) -> None:
    found = breaches(tree(tmp_path, **(TARGETS | {importer: source})))
    assert len(found) == 1
    assert said in found[0]
    assert importer.replace("__", ".") in found[0]


@pytest.mark.parametrize(
    ("importer", "source"),
    [
        ("answer__x", "from slipstream.models.base import Encoder\nfrom slipstream.runtime.batcher import Batcher"),
        ("models__x", "from slipstream.models.encoder import E5\nfrom . import base"),
        ("build", "from slipstream.models.encoder import E5\nfrom slipstream.stores import qdrant"),
        ("cli", "from slipstream.models.encoder import E5\nimport slipstream.build"),
        ("server__x", "from slipstream.build import build\nimport json, numpy"),
    ],
)
def test_what_is_allowed_is_no_breach(tmp_path: Path, importer: str, source: str) -> None:
    assert breaches(tree(tmp_path, **(TARGETS | {importer: source}))) == []


def test_a_circle_is_found(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        runtime__a="from slipstream.runtime.b import B",
        runtime__b="def f():\n    from slipstream.runtime import c",
        runtime__c="from . import a",
        runtime__d="from slipstream.runtime import a",
    )
    circle = cycle(root)
    assert set(circle) == {"slipstream.runtime.a", "slipstream.runtime.b", "slipstream.runtime.c"}
    assert circle[0] == circle[-1]
