"""The rooms of the package and the folders of the core as docs/architecture.md has them; what breaks their walls."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
CPP = ROOT / "cpp"
PACKAGE = ROOT / "src" / "cipherblas"
PACKAGES = (
    PACKAGE,
    ROOT / "bench" / "src" / "cipherblas_bench",
    ROOT / "hardware" / "src" / "cipherblas_hardware",
)
DOCUMENT = ROOT / "docs" / "architecture.md"

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
NAME = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class House:
    """Who may use whom.

    Attributes:
        rooms: room → the rooms that it may use beside itself.
        doors: module or room → the only modules, outside of it, that may use it.
        inside: room → its folders, bottom up; "*" stands for the modules that lie in none.
        folders: of the core, bottom up.
        distributions: package → those of other distributions that it may use.
        floors: package of a distribution → its folders, bottom up; "*" stands for the modules that lie in none.
    """

    rooms: Mapping[str, frozenset[str]]
    doors: Mapping[str, frozenset[str]]
    inside: Mapping[str, Sequence[str]]
    folders: Sequence[str]
    distributions: Mapping[str, frozenset[str]]
    floors: Mapping[str, Sequence[str]]


def tables(text: str) -> dict[str, list[list[str]]]:
    """First cell of the header → the rows of each table of a Markdown text."""
    found: dict[str, list[list[str]]] = {}
    rows: list[list[str]] = []
    for line in text.splitlines():
        if not line.startswith("|"):
            rows = []
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not rows:
            found[cells[0]] = rows
        rows.append(cells)
    return {name: lines[2:] for name, lines in found.items()}


def house(text: str) -> House:
    """What the document says."""
    found = tables(text)

    def names(cell: str) -> frozenset[str]:
        return frozenset(NAME.findall(cell))

    return House(
        {NAME.findall(row[0])[0]: names(row[2]) for row in found["room"]},
        {NAME.findall(row[0])[0]: names(row[1]) for row in found["of"]},
        {NAME.findall(row[0])[0]: NAME.findall(row[1]) for row in found["inside"]},
        [NAME.findall(row[0])[0] for row in found["folder"]],
        {NAME.findall(row[0])[0]: names(row[2]) for row in found["distribution"]},
        {NAME.findall(row[0])[0]: NAME.findall(row[3]) for row in found["distribution"]},
    )


def module_name(file: Path, package: Path) -> str:
    """The dotted name below `package`; empty for the package itself."""
    parts = list(file.relative_to(package).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def parsed(text: str) -> ast.Module:
    """A text is parsed once for all tests, which only look at what they get."""
    return ast.parse(text)


@functools.cache
def import_statements(text: str) -> list[ast.Import | ast.ImportFrom]:
    """Those of a module, anywhere in its text."""
    return [node for node in ast.walk(parsed(text)) if isinstance(node, (ast.Import, ast.ImportFrom))]


def imports(file: Path, package: Path) -> Iterator[str]:
    """The modules of the package that `file` imports, anywhere in its text; empty for the package itself."""
    top = package.name
    own = [top, *module_name(file, package).split(".")] if module_name(file, package) else [top]
    base = own if file.name == "__init__.py" else own[:-1]
    for node in import_statements(file.read_text(encoding="utf-8")):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        else:
            start = base[: len(base) - node.level + 1] if node.level else []
            source = ".".join([*start, *([node.module] if node.module else [])])
            targets = []
            for alias in node.names:
                inner = package.joinpath(*source.split(".")[1:], alias.name)
                is_module = inner.with_suffix(".py").exists() or inner.is_dir() or alias.name == "_core"
                targets.append(f"{source}.{alias.name}" if is_module else source)
        for target in targets:
            if target == top or target.startswith(f"{top}."):
                yield target[len(top) + 1 :]


def python_files(package: Path) -> list[Path]:
    """All of them, in order."""
    return sorted(package.rglob("*.py"))


def within(module: str, place: str) -> bool:
    """Whether a module is a place or lies in it."""
    return module == place or module.startswith(f"{place}.")


def folder(module: str, package: Path) -> str:
    """That of its room in which a module lies; "*" where it lies in none."""
    room, inner = [*module.split("."), ""][:2]
    return inner if inner and (package / room / inner).is_dir() else "*"


def broken_walls(package: Path, plan: House) -> list[str]:
    """Imports from rooms that a room may not use and from folders above, modules in no room, doors that others use."""
    found = []
    for file in python_files(package):
        module = module_name(file, package)
        own = module.split(".")[0] or package.name
        if own not in plan.rooms:
            found.append(f"{module} is in no room")
            continue
        for target in sorted(set(imports(file, package))):
            other = target.split(".")[0] or package.name
            if other not in plan.rooms:
                found.append(f"{module} imports {target}, which is in no room")
            elif other != own and other not in plan.rooms[own]:
                found.append(f"{module} imports {target}: {own} may not use {other}")
            for place, users in plan.doors.items():
                if within(target, place) and not within(module, place) and module not in users:
                    found.append(f"{module} imports {target}, which is for {', '.join(sorted(users))} only")
            if other == own and own in plan.inside:
                order = plan.inside[own]
                mine, its = (folder(name, package) for name in (module, target))
                if not {mine, its} <= set(order):
                    found.append(f"{module} imports {target}: not both are in a folder of the table")
                elif order.index(its) > order.index(mine):
                    found.append(f"{module} imports {target} from above")
    return sorted(set(found))


def broken_distributions(packages: Sequence[Path], plan: House) -> list[str]:
    """Imports of a distribution that another may not use, and in one that has folders, of folders from above."""
    found = []
    for package in packages:
        order = plan.floors[package.name]
        for file in python_files(package):
            for node in import_statements(file.read_text(encoding="utf-8")):
                named = (
                    [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module]
                )
                for top in {str(name).split(".")[0] for name in named if not getattr(node, "level", 0)}:
                    allowed = {package.name, *plan.distributions[package.name]}
                    if top in plan.distributions and top not in allowed:
                        found.append(f"{package.name} may not use {top}: {file.name}")
            mine = _floor(module_name(file, package), package)
            for target in sorted(set(imports(file, package))) if order else ():
                if order.index(_floor(target, package)) > order.index(mine):
                    found.append(f"{module_name(file, package)} imports {target} from above")
    return sorted(set(found))


def _floor(module: str, package: Path) -> str:
    top = module.split(".")[0]
    return top if top and (package / top).is_dir() else "*"


def circles(package: Path) -> list[list[str]]:
    """Modules that import each other, directly or through others, wherever in their text."""
    graph = {module_name(file, package): set(imports(file, package)) for file in python_files(package)}
    reach = {module: _reached(graph, module) for module in graph}
    found = {
        tuple(sorted(other for other in reach[module] if module in reach.get(other, ())))
        for module in graph
        if module in reach[module]
    }
    return sorted(map(list, found))


def _reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        module = waiting.pop()
        if module not in seen:
            seen.add(module)
            waiting += graph.get(module, ())
    return seen


def broken_folders(cpp: Path, folders: Sequence[str]) -> list[str]:
    """Includes that point upward, or at something that is not a folder of the core."""
    rank = {folder: position for position, folder in enumerate(folders)}
    found = []
    for file in sorted(path for path in cpp.rglob("*") if path.suffix in {".h", ".cpp"}):
        name = file.relative_to(cpp)
        own = name.parts[0]
        if own == "tests":
            continue
        if own not in rank:
            found.append(f"{name}: {own} has no place in the table")
            continue
        for included in INCLUDE.findall(file.read_text(encoding="utf-8")):
            folder = included.split("/")[0]
            if folder not in rank:
                found.append(f'{name}: "{included}" does not name a folder')
            elif rank[folder] > rank[own]:
                found.append(f'{name}: {own} includes "{included}" from above')
    return found


def tree(root: Path, files: Mapping[str, str]) -> Path:
    """A folder with these files."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root
