"""Native code: textual LLVM IR to object code, a verified cache of objects, and linking through LLJIT.

The cache is private to the user, keyed by what decides the machine code (IR, features, LLVM version), written by
rename and verified by hash before anything is loaded: it is native code.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import stat
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import llvmlite.binding as llvm

from trainer import TrainerError
from trainer.engine.targets.cpu import features, lookups

CACHE_VARIABLE = "TRAINER_CACHE_DIR"
OBJECT = ".o"
_DIGEST_BYTES = 32
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, slots=True)
class Target:
    """The machine that code is made for: the host, the host with fewer features, or with a `triple` any other machine.

    `triple` and `name` are LLVM's ("aarch64-unknown-linux-gnu", "generic"); "" stands for the host's, and no name.
    """

    features: str
    name: str = ""
    triple: str = ""

    @property
    def key(self) -> str:
        return f"{llvm.llvm_version_info}|{self.triple or llvm.get_process_triple()}|{self.name}|{self.features}"


@functools.cache
def _initialise() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@functools.cache
def _initialise_others() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


@functools.cache
def host_features() -> dict[str, bool]:
    """The host's features that kernels may use, by LLVM's names; `TRAINER_CPU_FEATURES` limits them.

    The CPU's *name* can be wrong in virtual machines and is not used.
    """
    _initialise()
    found = features.limited(dict(llvm.get_host_cpu_features()), os.environ.get(features.FEATURES_VARIABLE, ""))
    if found.get("amx-tile") and not features.tiles_permitted():
        return features.without_tiles(found)
    return found


def check_host() -> None:
    """Raise where the host lacks what every kernel relies on: fused multiply-add in vectors of 256 bits or NEON.

    Without it LLVM would call a library function for each product, which no kernel may do.
    """
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return
    missing = [name for name in ("avx2", "fma") if not host_features().get(name)]
    if missing:
        raise TrainerError(
            "the cpu device can't run on this processor",
            found=f"no {' and no '.join(missing)}",
            expected="AVX2 and FMA (x86-64 processors since about 2013 have them)",
            hint="`device: reference` works everywhere, slowly.",
        )


@functools.cache
def host_target(narrow: bool = False) -> Target:
    """The host's target; with `narrow`, as a processor with AVX2 would be (on ARM: the same)."""
    usable = host_features()
    if narrow and usable.get("avx2"):
        usable = features.limited(usable, "avx2")
    words = [f"{'+' if present else '-'}{name}" for name, present in sorted(usable.items())]
    if usable.get("avx512f"):
        words.append("-prefer-256-bit")
    return Target(",".join(words))


@functools.lru_cache(maxsize=4)
def _machine(target: Target) -> llvm.TargetMachine:
    if target.triple:
        _initialise_others()
    _initialise()
    triple = llvm.Target.from_triple(target.triple or llvm.get_process_triple())
    return triple.create_target_machine(cpu=target.name, features=target.features, opt=3, reloc="pic", jit=True)


def compile_object(ir: str, target: Target | None = None) -> bytes:
    """Object code for a module of textual IR, from the cache where it holds it."""
    target = target or host_target()
    key = object_key(ir, target)
    cached = cached_object(key)
    if cached is not None:
        return cached
    with llvm.parse_assembly(_for_target(ir, target)) as module:
        module.verify()
        code = bytes(_machine(target).emit_object(module))
    keep(key, code, OBJECT)
    _counts["compiled"] += 1
    return code


@functools.lru_cache(maxsize=256)
def problem_of(ir: str, name: str, pointers: int) -> str | None:
    """The reason why a module defines no function `name` with `pointers` pointers and an i64, without a result, or
    None.
    """
    try:
        with llvm.parse_assembly(_for_target(ir, host_target())) as module:
            module.verify()
            functions = {function.name: function for function in module.functions if not function.is_declaration}
            if name not in functions:
                return f"functions: {', '.join(functions) or 'none'}"
            found = str(functions[name].global_value_type)
    except RuntimeError as error:
        return str(error).strip()
    expected = f"void ({', '.join(['ptr'] * pointers + ['i64'])})"
    return None if found == expected else f"@{name} of type {found}, where the inputs ask for {expected}"


def object_key(ir: str, target: Target) -> str:
    """What the object code of a module is kept under."""
    return hashlib.sha256(f"{target.key}\n{_for_target(ir, target)}".encode()).hexdigest()


def cached_object(key: str) -> bytes | None:
    """The object code that is kept under a key."""
    code = kept(key, OBJECT)
    _counts["cached"] += code is not None
    return code


_counts = {"compiled": 0, "cached": 0}


def object_counts() -> tuple[int, int]:
    """How many objects this process has compiled, and how many it has read from the cache."""
    return _counts["compiled"], _counts["cached"]


def assembly(ir: str, target: Target | None = None) -> str:
    """The assembly text of a module, to look at what a kernel became."""
    target = target or host_target()
    with llvm.parse_assembly(_for_target(ir, target)) as module:
        return str(_machine(target).emit_assembly(module))


def _for_target(ir: str, target: Target) -> str:
    """The module with its lookups spelled for the target."""
    triple = target.triple or llvm.get_process_triple()
    return lookups.spelled(ir, triple, target.features.split(","))


@dataclass
class Library:
    """Loaded objects and the addresses of their functions; unloads when it is collected."""

    addresses: dict[str, int]
    _tracker: object = field(repr=False)

    def __getitem__(self, name: str) -> int:
        return self.addresses[name]


@functools.cache
def _jit() -> llvm.LLJIT:
    _initialise()
    return llvm.create_lljit_compiler(_machine(host_target()))


_library_count = 0


def link(objects: Mapping[str, bytes], name: str = "kernels", exports: Sequence[str] | None = None) -> Library:
    """Load objects at once; `objects` maps the function each exports to its code (or give `exports`).

    No object may need another's symbols.
    """
    global _library_count
    _library_count += 1
    builder = llvm.JITLibraryBuilder()
    symbols = list(objects if exports is None else exports)
    for code in objects.values():
        builder.add_object_img(code)
    for symbol in symbols:
        builder.export_symbol(symbol)
    tracker = builder.link(_jit(), f"{name}_{_library_count}")
    return Library({symbol: tracker[symbol] for symbol in symbols}, tracker)


def cache_directory() -> Path:
    """Where compiled kernels are kept; `TRAINER_CACHE_DIR` moves it."""
    override = os.environ.get(CACHE_VARIABLE)
    if override:
        return Path(override) / "objects"
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "trainer" / "objects"


@functools.cache
def private_directory(path: Path) -> Path | None:
    """`path` once it exists and only this user can write there; None, and nothing is cached, where that can't be.

    Users who can write to a parent folder could replace it: `unsafe_folder` must find none.
    """
    path = path.absolute()
    try:
        for folder in (*reversed(path.parents), path):
            if not folder.is_dir():
                folder.mkdir(mode=0o700, exist_ok=True)
        status = path.stat()
        if not hasattr(os, "getuid"):
            return path
        is_own = status.st_uid == os.getuid() and not status.st_mode & _WRITABLE_BY_OTHERS
        unsafe = unsafe_folder(path) if is_own else path
    except OSError:
        return None
    if unsafe is None:
        return path
    warnings.warn(
        f"kernels are not cached, because other users can write to {unsafe} or own it: run `chmod go-w {unsafe}`, or "
        f"set {CACHE_VARIABLE} to a folder of your own",
        RuntimeWarning,
        stacklevel=2,
    )
    return None


def unsafe_folder(path: Path) -> Path | None:
    """The nearest of `path` and its parents that lets other users replace the content of `path`, or None.

    They must belong to this user or to root and not be writable by others, unless the sticky bit lets others replace
    only what is their own (/tmp). A group whose only member is this user is allowed. Symbolic links must
    belong to these two, and lead to where the same holds.
    """
    for each in (path, *path.parents):
        status = os.lstat(each)
        if status.st_uid not in (0, os.getuid()):
            return each
        if stat.S_ISLNK(status.st_mode):
            if (beyond := unsafe_folder(each.parent / os.readlink(each))) is not None:
                return beyond
        elif status.st_mode & stat.S_ISVTX or not status.st_mode & _WRITABLE_BY_OTHERS:
            continue
        elif status.st_mode & stat.S_IWOTH or not is_private_group(status.st_gid):
            return each
    return None


def is_private_group(number: int) -> bool:
    """Whether the group has this user's name and no other member, as most distributions give one to each user."""
    import grp
    import pwd

    try:
        group, user = grp.getgrgid(number), pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def kept(key: str, suffix: str) -> bytes | None:
    """What `keep` has kept under a key, verified; None where there is nothing, or something else."""
    directory = private_directory(cache_directory())
    if directory is None:
        return None
    try:
        blob = (directory / f"{key}{suffix}").read_bytes()
    except OSError:
        return None
    digest, content = blob[:_DIGEST_BYTES], blob[_DIGEST_BYTES:]
    return content if hashlib.sha256(key.encode() + content).digest() == digest else None


def keep(key: str, content: bytes, suffix: str) -> None:
    """Store bytes next to the compiled kernels, for `kept`; without a writable cache nothing is stored."""
    directory = private_directory(cache_directory())
    if directory is None:
        return
    try:
        descriptor, temporary = tempfile.mkstemp(dir=directory)
        with os.fdopen(descriptor, "wb") as file:
            file.write(hashlib.sha256(key.encode() + content).digest() + content)
        os.replace(temporary, directory / f"{key}{suffix}")
    except OSError:
        return  # a full or read-only disk costs compile time, never a run
