"""The Python reference, written from signatures and docstrings."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from types import ModuleType
from typing import Any

MODULES = (
    "trainer", "trainer.learner", "trainer.learner.inference", "trainer.learner.weights", "trainer.metrics",
    "trainer.metrics.coco", "trainer.datasets", "trainer.datasets.transforms", "trainer.configs", "trainer.rundir",
    "trainer.engine", "trainer.engine.nn", "trainer.engine.random",
)  # fmt: skip
"""Modules whose public names are documented, a page each, from the general to the special."""
HEADINGS = ("Args", "Attributes", "Raises", "Returns", "Yields")
"""Words that begin a list in a docstring."""


def pages() -> dict[str, str]:
    """The pages of the reference by path; `api/index.md` lists the others."""
    modules = {name: importlib.import_module(name) for name in MODULES}
    pages = {f"api/{name}.md": _module(name, module) for name, module in modules.items()}
    rows = "\n".join(f"| [`{name}`]({name}.md) | {_text(module).splitlines()[0]} |" for name, module in modules.items())
    pages["api/index.md"] = (
        "# Python reference\n\nThe public names of each module, with signatures and docstrings. "
        "[Python](../python.md) is the guide.\n\n| module | contents |\n|---|---|\n" + rows + "\n"
    )
    return pages


def public_names(module: ModuleType) -> list[str]:
    """The names that a module exports: `__all__`, or what it defines and, of a package, imports from this project.

    Imports are read from the source, because packages import many names only when they are asked for.
    """
    names = set(getattr(module, "__all__", ()))
    if not names:
        tree = ast.parse(inspect.getsource(module))
        names = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
        if hasattr(module, "__path__"):
            names |= {
                alias.asname or alias.name
                for node in ast.walk(tree)
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("trainer.")
                for alias in node.names
            }
    return sorted((name for name in names if not name.startswith("_")), key=str.lower)


def _module(name: str, module: ModuleType) -> str:
    parts = [f"# {name}\n", _markdown(_text(module))]
    values = []
    for each in public_names(module):
        value = getattr(module, each)
        if inspect.ismodule(value) or each.startswith("__"):
            continue
        if inspect.isclass(value):
            parts += _class(each, value)
        elif callable(value):
            parts += [f"## {each}\n", _signature(each, value), _markdown(_text(value))]
        else:
            values.append(f"`{each}`")
    if values:
        parts += ["## Constants\n", ", ".join(values) + "\n"]
    return "\n".join(parts)


def _class(name: str, value: type) -> list[str]:
    parts = [f"## {name}\n", _signature(name, value), _markdown(_text(value))]
    for each, member in vars(value).items():
        target = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if each.startswith("_") or not (inspect.isfunction(target) or isinstance(target, property)):
            continue
        if not inspect.getdoc(target):
            continue
        parts.append(f"### {name}.{each}\n")
        if not isinstance(target, property):
            parts.append(_signature(each, target))
        parts.append(_markdown(_text(target)))
    return parts


def _signature(name: str, value: Any) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):  # of a class that is made in C
        return ""
    kept = [each for each in signature.parameters.values() if each.name != "self"]
    arguments = [str(each).replace("'", "") if each.default is inspect.Parameter.empty else str(each) for each in kept]
    line = f"{name}{signature.replace(parameters=kept)}"
    if len(line) > 100 and arguments:
        returned = "" if signature.return_annotation is signature.empty else f" -> {signature.return_annotation}"
        line = f"{name}(\n" + "".join(f"    {each},\n" for each in arguments) + f"){returned}"
    return f"```text\n{re.sub(r'<(?:function|class|object)[^>]*>', '...', line)}\n```\n"


def _text(value: Any) -> str:
    return inspect.getdoc(value) or ""


def _markdown(docstring: str) -> str:
    """A docstring as Markdown: lists of arguments become lists, `<` outside of code is escaped."""
    lines: list[str] = []
    heading = False
    for line in docstring.splitlines():
        if (found := re.fullmatch(r"(\w+):", line)) and found[1] in HEADINGS:
            heading = True
            lines += ["", f"**{found[1]}:**", ""]
        elif heading and (item := re.match(r"    ([\w*, .]+): (.*)", line)):
            lines.append(f"- `{item[1]}`: {_escaped(item[2])}")
        elif heading and line.startswith("    "):
            lines.append(_escaped("  " + line.strip()))
        else:
            heading = heading and not line.strip()
            lines.append(line if line.startswith("    ") else _escaped(line))
    return "\n".join(lines).strip() + "\n"


def _escaped(line: str) -> str:
    parts = line.split("`")
    parts[::2] = [re.sub(r"([<*_\[\]|])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)
