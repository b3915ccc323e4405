"""The project's language: phrases that stay out of texts, and names that stay out of code.

A text is a config description, a string, docstring or comment of the package or a benchmark, or a line of Markdown. A
phrase is a regular expression, matched without case and across line breaks, with what to say instead.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trainer.configs import json_schema, load
from trainer.configs.gallery import RecipeIndex

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("configs", "cli", "learner", "datasets", "rundir", "metrics", "recipes", "tui", "engine")

PHRASES: Mapping[str, str] = {
    # fillers and nominal clauses
    r"\bof late\b": "recent; the last ten seconds",
    r"\b(of|by|after|in|for|than|at most|to|within) so (many|much|long)\b": "this many; or name the number",
    r"^so (many|much|long)\b": "this many; or name the number",
    r"\bso-manyth\b": "n-th",
    r"\bone's own\b": "your own, custom",
    r"\b(class|code|module|schedule|hook|metric|name)s? of one's\b": "custom",
    r"\bof the user's own\b": "custom",
    r"\b(is|are|was|were|be|been) told (of|about|to|how)\b": "receives, is reported",
    r"\b(tell|tells|telling) of\b": "report",
    r"\btold of\b": "reported",
    r"(?<!--)\bbeside\b": "next to, with, in addition to, relative to",
    r"\bby the (former|latter|first)\b": "relative to; name the quantity",
    r"\bof the former\b": "of the previous",
    r"\bwith settings of their own\b": "with different settings",
    r"\bwhat it is made with\b": "keyword arguments of the constructor",
    r"\bby way of\b": "as, through",
    r"\bbe rid of\b": "clear, delete",
    r"\banew\b": "again",
    r"\bcan't be had\b": "is impossible, is not supported",
    r"\bas (numpy|pytorch|torch|opencv|pillow|the (field|standard)) (has|have|does) (it|them)\b": "as in NumPy",
    r"\bthe field's habit\b": "for compatibility with PyTorch",
    r"\bwhat (the|a) [a-z ]+ asks? of\b": "the interface of",
    r"\bstands? for what\b": "represents",
    r"\bin one go\b": "atomically, at once",
    r"\bkin\b": "related functions",
    r"\bno less than\b": "at least",
    r"\b(what|that) (is|are) no (bool|float|tensor|array|integer|scalar|string|file|class|function)s?\b": "is not a …",
    r"\bwhat became of\b": "the result of",
    # quantities
    r"\bleast and (largest|greatest|most)\b": "minimum and maximum",
    r"\bthe (least|greatest) (value|number|score|share|size)\b": "minimum, maximum",
    r"\bthe most (that|degrees|either|each|numbers?)\b": "maximum, at most",
    r"\bno more than\b": "at most",
    r"\bthe greatest value of\b.*\bless the least\b": "data range: maximum minus minimum possible value",
    r"\bleast score\b": "score threshold",
    r"\beither way\b": "in either direction; in both cases",
    r"\bhighest learning rate by\b": "initial learning rate as a fraction of the peak",
    r"\bmeasurements? (without|at the beginning|after|since)\b": "validations without improvement",
    r"\b(that are|is) borne\b": "allowed",
    # shapes: sizes as 8x3x224x224, axes as [N, C, H, W]
    r"\d( x | ?× ?)\d": "sizes joined by x, without spaces: 8x3x224x224",
    r"(?<![<\[])\{\} x \{\}": "sizes joined by x, without spaces: {}x{}",
    r"\((N|B|batch), ?(C|H|channels|height)\b": "axes in brackets: [N, C, H, W]",
    # people's verbs for things
    r"\bhears?\b": "receives",
    r"\b(nobody else|whoever)\b": "name who or what; no other item",
    r"\bminds? (how|whether|if|that)\b": "depends on",
    r"\bcounts? for nothing\b": "is ignored",
    r"\b(labels?|pixels?|rows?|classes|class) that don't count\b": "ignored",
    r"\bonly fills?\b": "padding",
    r"\bfilled up\b": "padded",
    r"\bfills? it up\b": "pads",
    r"\blies? askew\b": "unaligned",
    r"\bgoes? on (with|from|training|to train|all the same)\b": "continues, resumes",
    r"\btake[sn]? up (a|the|a run|again|states?)\b": "resume, restore",
    # names of things
    r"\bwhat is (there|right|found|seen|wanted|asked for|meant)\b": "ground truth, target; prediction",
    r"\bright (class|classes|ones?|numbers|images|tokens?)\b": "target",
    r"\bthe classes? chosen\b": "predicted class",
    r"\bover classes alike\b": "unweighted mean (macro)",
    r"\ba look at\b": "inspect; show",
    r"\ba mistake\b": "an error",
    r"\bfile of weights\b": "weights file",
    r"\bcut short\b": "truncated",
    r"\bis no (longer )?(yaml|json|number|text|picture|image|metric|list|mapping)\b": "is not a …",
    r"\bwhole numbers?\b": "integer",
    r"\bproportions (kept|of)\b": "aspect ratio",
    r"\bdivided by its deviation\b": "standard deviation",
    r"\bsays \d": "predicted 5, true 8",
    # American spelling
    r"\b\w*(colour|grey|neighbour|behaviour|favour|honour|labell(ed|ing)|centre[ds]?\b)\w*": "American spelling",
    r"\b(optimi|normali|initiali|minimi|maximi|recogni|vectori|organi|reali|summari|seriali|quanti)s(e|es|ed|er|ers|ing|ation)\b":
        "American spelling",
}  # fmt: skip
"""By pattern, what to say instead."""
_AT_WORDS = [pattern.removeprefix(r"\b") for pattern in PHRASES if pattern.startswith(r"\b")]
_ANYWHERE = [pattern for pattern in PHRASES if not pattern.startswith(r"\b")]
ANY = re.compile("|".join([rf"\b(?:{'|'.join(_AT_WORDS)})", *_ANYWHERE]), re.IGNORECASE)
"""Any of the phrases; those that begin at a word are tried at no other place."""

ALLOWED: Mapping[str, tuple[str, ...]] = {}
"""By pattern, the files that may use it."""

STRING_OR_COMMENT = re.compile(
    r"""(?P<quote>\"{3}|'{3})(?:\\.|[^\\])*?(?P=quote)|(?P<one>["'])(?:\\.|(?!(?P=one))[^\\\n])*(?P=one)|(?P<comment>\#.*?$)""",
    re.DOTALL | re.MULTILINE,
)

FRAGMENT = re.compile(
    r"^(Its\b|The same\b|Theirs\b|How many\.|How much\b|No more\b|Of (so|each|every)\b|The most\b|Null:|What it\b)"
)
"""A description that leans on the name of its field."""

NAMES = re.compile(
    r"(^|_)(seen|told|wanted|apart|borne|wished|meant|said|unsaid|heard|hear|hears|looked|looked_at|askew|reach|judgement)($|_)"
)
"""Participles and verbs used as nouns, and words that need an explanation."""
EXACT_NAMES = {"Folder": "a process is not a folder", "BY_WAY_OF_LEAVING": "name the table for its values"}
OPAQUE_FILES = {
    "reach", "states", "structure", "rows", "looks", "glance", "outlines", "crowding", "loaded", "control", "allowance",
    "late", "awaited", "declared", "known", "own", "others", "newest", "aside", "shares", "monitored", "surroundings",
    "annotated", "worst", "combined", "pickled", "resolved", "binned", "pulse", "wall",
}  # fmt: skip
"""File names that don't say what is in them."""
ALLOWED_FILES = {
    "trainer/metrics/rows.py",  # metrics of table rows
    "trainer/engine/profiling/rows.py",  # rows of a profile
    "trainer/rundir/control.py",  # requests to a run, in its folder `control`
}


def descriptions() -> Iterator[tuple[str, str]]:
    """(path, description) of every field of a configuration and of the recipes' options; "" for a missing one."""
    schema = json_schema()
    for name, section in {"": schema, **schema["$defs"]}.items():
        yield from _fields(name, section)
    for recipe in RecipeIndex.built_in().names():
        loaded = load(recipe)
        if loaded.options is not None:
            yield from _fields(f"{recipe}.options", type(loaded.options).model_json_schema())


def _fields(name: str, section: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, field in section.get("properties", {}).items():
        if "const" not in field and "$ref" not in field:  # the name of a section; a section has its own description
            yield f"{name}.{key}", field.get("description", "")


def texts_of(path: Path) -> Iterator[tuple[int, str]]:
    """(line, text) of every string, docstring and comment of a Python file; f-strings with {} for values."""
    source = path.read_text(encoding="utf-8")
    parts: set[ast.AST] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            parts |= set(node.values)
            yield node.lineno, "".join(str(p.value) if isinstance(p, ast.Constant) else "{}" for p in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in parts:
            yield node.lineno, node.value
    comment: list[str] = []
    line = first = 0
    for found in STRING_OR_COMMENT.finditer(source):
        if found["comment"] is not None:
            here = source.count("\n", 0, found.start()) + 1
            if comment and here != line + 1:
                yield first, " ".join(comment)
                comment = []
            first, line = (first if comment else here), here
            comment.append(found["comment"].lstrip("# "))
    if comment:
        yield first, " ".join(comment)


def pages() -> list[Path]:
    """The Markdown files of the project."""
    return [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "trainer").glob("recipes/*/*.md")]


def package_files() -> list[Path]:
    """The Python files of the package."""
    rooms = [path for room in ROOMS for path in sorted((ROOT / "trainer" / room).rglob("*.py"))]
    return [*sorted((ROOT / "trainer").glob("*.py")), *rooms]


def problems(text: str, file: str) -> list[str]:
    """The banned phrases of a text, with what to say instead."""
    plain = " ".join(text.split())
    if not ANY.search(plain):
        return []
    return [
        f"{match.group()!r}: say {instead!r}"
        for pattern, instead in PHRASES.items()
        if file not in ALLOWED.get(pattern, ()) and (match := re.search(pattern, plain, re.IGNORECASE))
    ]


def test_every_phrase_is_found_in_a_text_that_has_it() -> None:
    for text in (
        "Measurements without an improvement that are borne.", "How many times the median of late a spike is.",
        "The learning rate after a rollback, by the former.", "No more than so many.", "Least and largest factor.",
        "Labels that count for nothing.", "Receives what hears.", "The image's colour.", "Code of one's own.",
        "Images of 3 x 64 x 64.", "Logits (N, C).",
    ):  # fmt: skip
        assert problems(text, "somewhere.md"), text
    assert not problems("Maximum number of pasted objects; 0: none.", "somewhere.md")


def test_config_descriptions_are_understood_alone() -> None:
    found = [
        f"{path}: {problem}"
        for path, text in descriptions()
        for problem in [
            *problems(text, "configs"),
            *(["no description"] if not text.strip() else []),
            *([f"a fragment: {text}"] if FRAGMENT.search(text) else []),
        ]
    ]
    assert not found, "\n".join(found)


def test_texts_of_the_package_and_of_benchmarks_have_no_banned_phrase() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {problem}"
        for path in [*package_files(), *sorted((ROOT / "benchmarks").rglob("*.py"))]
        for line, text in texts_of(path)
        if " " in text
        for problem in problems(text, str(path.relative_to(ROOT)))
    ]
    assert not found, "\n".join(found)


def test_pages_have_no_banned_phrase() -> None:
    found = []
    for path in pages():
        prose = re.sub(r"```.*?```|`[^`\n]*`", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        for number, block in enumerate(re.split(r"\n\s*\n", prose)):
            name = str(path.relative_to(ROOT))
            found += [f"{name}: paragraph {number}: {problem}" for problem in problems(block, name)]
    assert not found, "\n".join(found)


def names_of(path: Path) -> Iterator[tuple[int, str]]:
    """(line, name) of every function, class, argument, variable and attribute that a file defines."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name


def test_code_of_the_package_has_no_banned_name() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in package_files()
        for line, name in names_of(path)
        if NAMES.search(name) or name in EXACT_NAMES
    ]
    assert not found, "\n".join(found)


def test_files_of_the_package_say_what_is_in_them() -> None:
    found = [path for path in package_files() if path.stem in OPAQUE_FILES]
    assert not [path for path in found if str(path.relative_to(ROOT)) not in ALLOWED_FILES]
