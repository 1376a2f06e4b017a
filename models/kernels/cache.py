"""Where compiled kernels are kept, and how a process gets them back.

They are kept in a folder named after a hash of their module's source and of all of ours that it imports: numba itself
looks only at the module of the outermost kernel, and would go on using what it compiled of the others before they were
edited. A family of learners is compiled anew only when something that it is made of has changed. The folder stands for
the path and the time of the source file, by which numba distinguishes files: so all checkouts of a user share what one
of them has compiled. A folder that may not be written, in an image for example, is read.

One process at a time compiles a kernel, or looks for it in the cache: who comes second finds what the first has
compiled. And numba's index of a kernel's variants has no lock of its own: two processes that add one each may give both
the same file, and the index then leads to the other variant's machine code.

A start loads twenty kernels, and would spend more than twice the time on what numba gets ready to compile others: its
typing and lowering of all of Python and NumPy, the modules of all that was inlined. All that comes when a kernel is
compiled that is not in the cache. Private parts of numba are overridden for it; tests/models/test_kernel_cache.py
checks that they are still there.
"""

import fcntl
import hashlib
import importlib
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from re import compile as pattern
from typing import Any, NamedTuple

import numba
from numba.core import codegen
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.environment import Environment, lookup_environment
from numba.core.runtime import _nrt_python
from numba.core.sigutils import normalize_signature
from numba.core.types.misc import unliteral

from riparian.models.kernels.compiler import Library, compiling, depth, without_wrapper

PATIENCE_SECONDS = 120.0  # how long a process waits for another one's kernel: that one may have been stopped
LEAST_FREE = 8_000_000  # bytes of a disk: the kernels of a pool take as many
MOST_CALLS = 50  # calls of a kernel that does nothing: whoever calls it until it has done something waits in vain
ROOT = Path(__file__).absolute().parents[3]  # what holds `riparian`
MODULE = pattern(rb"riparian(?:\.\w+)+")
WORD = pattern(rb"\w+")
NAMES = pattern(rb" import (\w+(?:, \w+)*|\([^)]*\))")


# the folder of a module's kernels ------------------------------------------------------------------------------------


@cache
def _content(source: str) -> tuple[bytes, bytes]:
    """A file, and the hash of its name and of what it holds."""
    content = Path(source).read_bytes()
    name = os.path.basename(source).encode()
    return content, hashlib.blake2b(name + b"\0" + content, digest_size=16).digest()


@cache
def _files(module: bytes, names: tuple[bytes, ...]) -> frozenset[str]:
    """The files of a module of ours, from which names are imported: of a folder, of the modules that these are, or else
    all."""
    path = ROOT.joinpath(*module.decode().split("."))
    if not path.is_dir():
        return frozenset([str(path.with_suffix(".py"))])
    files = [path / f"{name.decode()}.py" for name in names]
    return frozenset(map(str, files if files and all(file.is_file() for file in files) else path.glob("*.py")))


@cache
def _imports(source: str) -> frozenset[str]:
    """The files of ours that one file imports."""
    content, _ = _content(source)
    found = set[str]()
    for module in MODULE.finditer(content):
        if content.endswith((b"from ", b"import "), 0, module.start()):
            names = NAMES.match(content, module.end())
            found |= _files(module.group(), () if names is None else tuple(WORD.findall(names[1])))
    return frozenset(found)


@cache
def folder_of(source: str) -> str:
    """Of the kernels of one file: below $NUMBA_CACHE_DIR, or else the user's cache folder."""
    known: set[str] = set()
    new = {source}
    while new:
        known |= new
        new = {imported for file in new for imported in _imports(file)} - known
    name = "/".join(source.split(os.sep)[-2:])
    checked = " checked" if numba.config.BOUNDSCHECK else ""  # NUMBA_BOUNDSCHECK=1, which numba's own index overlooks
    digest = hashlib.blake2b(f"{numba.__version__} {name}{checked}".encode(), digest_size=8)
    for file in sorted(known):
        digest.update(_content(file)[1])
    return str(kept_in().folder / f"kernels-{digest.hexdigest()}")


class Kept(NamedTuple):
    """Where kernels are kept. lost : why that is not the usual place, or none at all; None where all is well."""

    folder: Path
    lost: str | None = None


@cache
def kept_in() -> Kept:
    """$NUMBA_CACHE_DIR, or else the user's cache folder; where there is none that can be written, a temporary folder
    that nobody else can write: whoever writes kernels runs code here."""
    lost: str | None = "this user has no home folder"
    base = os.environ.get("NUMBA_CACHE_DIR")
    with suppress(RuntimeError):
        folder = Path(base or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "riparian")
        lost = _unwritable(folder)
        if lost is None:
            return Kept(folder)
        if base or any(folder.glob("kernels-*")):  # of an image, for example
            return Kept(folder, f"they cannot be kept, as {lost}")
    own = Path(tempfile.gettempdir()) / f"riparian-{os.getuid()}"
    with suppress(OSError):
        own.mkdir(mode=0o700)
    try:
        about = own.lstat()
        safe = stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid() and not about.st_mode & 0o022
        own = own if safe else Path(tempfile.mkdtemp(prefix="riparian-"))
    except OSError as error:
        return Kept(own, f"they cannot be kept, as {lost}, nor in {own} ({error.strerror})")
    full = _unwritable(own)
    if full is not None:
        return Kept(own, f"they cannot be kept, as {lost}, and {full}")
    os.environ["NUMBA_CACHE_DIR"] = str(own)  # for processes that this one starts
    return Kept(own, f"they are kept in {own}, as {lost}")


def _unwritable(folder: Path) -> str | None:
    """Why nothing can be written there; None where it can. The folder is made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return f"{folder} cannot be made ({error.strerror})"
    if not os.access(folder, os.W_OK):
        return f"{folder} cannot be written"
    return None if free >= LEAST_FREE else f"the disk of {folder} is full"


# what is kept of a kernel --------------------------------------------------------------------------------------------


class _Loaded(Library):
    """From the cache: machine code of what Python calls, or the bitcode of an inner kernel."""

    _bitcode: bytes
    _shared_module: Any

    @classmethod
    def _unserialize(cls, made: Any, state: Any) -> "_Loaded":
        name, machine_code, bitcode, symbols = state
        library = cls(made, name)
        library._bitcode = bitcode
        if bitcode:
            library._finalized = True
            return library
        library.called = True
        library.enable_object_caching()
        library._set_compiled_object(machine_code)
        library._finalize_final_module()
        made._engine._defined_symbols.update(symbols)
        return library

    def _get_module_for_linking(self) -> Any:
        if self._shared_module is None:
            self._shared_module = codegen.ll.parse_bitcode(self._bitcode)
        return self._shared_module


def _reduced(found: Any) -> Any:
    """A compiled kernel as it is kept; None for one of a kind that we have none of, which is not kept."""
    (name, kind, code), descriptor, own, signature, objects, lifted, notes, reload, inlined = found._reduce()
    every = own, *inlined
    if kind != "object" or objects or lifted or reload or any(each.consts for each in every):
        return None
    # Environments hold objects of Python, of which kernels have none. Kept as they are, the modules of all functions
    # that were inlined would be imported with them.
    named = [(each.globals["__name__"], each.env_name) for each in every]
    return (name, *code), descriptor, signature, notes, named


def _environment(module: str, name: str) -> Any:
    found = lookup_environment(name)
    if found is None:
        found = Environment({"__name__": module})
        found.env_name = name
        Environment._memo[name] = found
    return found


def _rebuilt(context: Any, kept: Any) -> Any:
    code, descriptor, signature, notes, named = kept
    _helpers()
    own, *inlined = (_environment(*each) for each in named)
    set_now = () if code[2] else inlined  # those of an inner kernel have their place in what calls it
    symbols = descriptor.llvm_func_name, descriptor.llvm_cpython_wrapper_name, *(name for _, name in named)
    made = context.codegen()
    made._library_class = _Loaded
    try:
        found = CompileResult._rebuild(
            context, (*code, symbols), descriptor, own, signature, False, (), notes, (), set_now
        )
    finally:
        made._library_class = Library
    return found._replace(referenced_envs=inlined)


@cache
def _helpers() -> None:
    """Show LLVM where the functions of numba are that turn arguments into arrays: part of what numba does before it
    compiles."""
    for name, address in _nrt_python.c_helpers.items():
        codegen.ll.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)


class KernelCache(FunctionCache):  # type: ignore[misc]
    """The variants of one kernel, in `folder`."""

    def __init__(self, function: Any, folder: str) -> None:
        self._name, self._py_func, self._cache_path = repr(function), function, folder
        code, name = function.__code__, function.__qualname__.replace("<", "").replace(">", "")
        stem = os.path.splitext(os.path.basename(code.co_filename))[0]
        version = f"py{sys.version_info[0]}{sys.version_info[1]}{sys.abiflags}"
        base = f"{stem}.{name}-{code.co_firstlineno}.{version}"
        self._cache_file = IndexDataCacheFile(folder, base, os.path.basename(folder))
        self.enable()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        kept = None
        if self._enabled:
            with suppress(OSError):
                kept = self._cache_file.load(self._key(sig, target_context.codegen()))
        if kept is not None:
            return _rebuilt(target_context, kept)
        _without_blas()  # it is compiled now
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        # Dynamic globals are addresses, of large arrays for example, in the process that compiles.
        kept = None if not self._enabled or data.library.has_dynamic_globals else _reduced(data)
        if kept is not None:
            with suppress(OSError):  # it may not be written, or is full: the next process compiles it again
                os.makedirs(self._cache_path, exist_ok=True)
                self._cache_file.save(self._key(sig, data.codegen), kept)

    def has(self, sig: Any, target_context: Any) -> bool:
        """Whether a variant that Python calls is there."""
        with suppress(OSError):
            return (self._index_key(sig, target_context.codegen()), False) in self._cache_file._load_index()
        return False

    def _key(self, sig: Any, made: Any) -> tuple[Any, bool]:
        return self._index_key(sig, made), depth() > 1


@cache
def _without_blas() -> None:
    """Load numba's array functions without SciPy's linear algebra: where SciPy is installed they look for it, a quarter
    of a second, for covariances, which no kernel calls."""
    linalg: Any = importlib.import_module("numba.np.linalg")
    found, linalg.ensure_blas = linalg.ensure_blas, _no_blas
    try:
        importlib.import_module("numba.np.arraymath")
    finally:
        linalg.ensure_blas = found


def _no_blas() -> None:
    raise ImportError


def _no_extensions() -> None:
    """Kernels know numpy alone: libraries that extend numba are looked for when one is compiled, and not before."""


# what is not there yet -----------------------------------------------------------------------------------------------


class NotCompiledError(Exception):
    """A kernel was called that is not in the cache."""


# Called before each kernel that Python calls; what to call in its place, if anything.
_instead: Callable[[Any, tuple[Any, ...]], Callable[..., Any] | None] | None = None
_looking = False  # whether `kernels_of` is called


def compile_none() -> AbstractContextManager[None]:
    """Meanwhile a kernel that would have to be compiled raises NotCompiledError when it is called."""

    def refuse(kernel: Any, sig: tuple[Any, ...]) -> None:
        if not kernel._cache.has(sig, kernel.targetctx):
            raise NotCompiledError

    return _before_each(refuse)


def kernels_of(call: Callable[[], None]) -> list[tuple[Any, tuple[Any, ...]]]:
    """The kernels that `call` calls, each with its signature. For a process that has called none yet and ends then:
    they run in Python, and where that does not go, do nothing and give 0; what `call` has made is good for nothing."""
    found: dict[tuple[Any, tuple[Any, ...]], int] = {}  # how often each did nothing
    inside = False

    def note(kernel: Any, sig: tuple[Any, ...]) -> Callable[..., Any]:
        def interpret(*arguments: Any) -> Any:
            nonlocal inside
            if inside:
                return kernel.py_func(*arguments)
            inside = True
            try:
                return kernel.py_func(*arguments)
            except Exception:
                found[kernel, sig] += 1
                if found[kernel, sig] > MOST_CALLS:
                    raise NotCompiledError from None
                return 0
            finally:
                inside = False

        if not inside:
            found.setdefault((kernel, sig), 0)
        return interpret

    global _looking
    _looking = True
    try:
        with _before_each(note), one_part():
            call()
    finally:
        _looking = False
    return list(found)


@contextmanager
def one_part() -> Iterator[None]:
    """A part of what `kernels_of` calls: what goes wrong there, for lack of kernels, leaves the others alone."""
    with suppress(*((Exception,) if _looking else ())):
        yield


@contextmanager
def _before_each(do: Callable[[Any, tuple[Any, ...]], Callable[..., Any] | None]) -> Iterator[None]:
    global _instead
    before, _instead = _instead, do
    try:
        yield
    finally:
        _instead = before


# one process at a time -----------------------------------------------------------------------------------------------


@contextmanager
def _alone(path: Path) -> Iterator[bool]:
    """Hold an exclusive lock on a file, which ends with its holder at the latest; False if it did not come in time."""
    held, deadline = False, time.monotonic() + PATIENCE_SECONDS
    with ExitStack() as stack:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context(path.open("w"))
            while not held and time.monotonic() < deadline:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    held = True
                except BlockingIOError:
                    time.sleep(0.02)
        except OSError:  # another user's file, or a file system without locks: go on as numba does
            held = True
        yield held


def kept(dispatcher: Any, folder: str) -> Any:
    """Keep a kernel in `folder`, and let no other process compile, load or save it at the same time."""
    compile_one, add, function = dispatcher.compile, dispatcher.add_overload, dispatcher.py_func
    compile_for_arguments = dispatcher._compile_for_args
    own = dispatcher._cache = KernelCache(function, folder)
    dispatcher._compilation_chain_init_hook = _no_extensions
    dispatcher._compiler._customize_flags = without_wrapper
    name = f"{function.__module__}.{function.__qualname__}-{function.__code__.co_firstlineno}.lock"
    # By signature, as Python calls it and as it is within others.
    called, inner = dict[Any, Any](), dict[Any, Any]()
    inside = False

    def add_one(found: Any) -> None:
        if found.library.called:
            add(found)
        else:
            dispatcher.overloads[tuple(found.signature.args)] = found

    def compile_alone(sig: Any) -> Any:
        nonlocal inside
        # Threads first, then processes: a thread that waits for the file lets no other one of its process hold it.
        with global_compiler_lock, compiling(), ExitStack() as stack:
            # A number that is written down in a call has a type of its own, and would have a variant of its own.
            have, arguments = inner if depth() > 1 else called, tuple(map(unliteral, normalize_signature(sig)[0]))
            if arguments in have:
                dispatcher.overloads[arguments] = have[arguments]
                return have[arguments].entry_point
            dispatcher.overloads.pop(arguments, None)
            if not inside:
                if not stack.enter_context(_alone(Path(folder) / name)):
                    own.disable()
                inside = True
                stack.callback(leave)
            found = compile_one(arguments)
            have[arguments] = dispatcher.overloads[arguments]
            return found

    def leave() -> None:
        nonlocal inside
        inside = False
        own.enable()

    def compile_for(*arguments: Any) -> Any:
        if _instead is not None:
            other = _instead(dispatcher, tuple(map(dispatcher.typeof_pyval, arguments)))
            if other is not None:
                return other
        return compile_for_arguments(*arguments)

    dispatcher.compile, dispatcher.add_overload, dispatcher._compile_for_args = compile_alone, add_one, compile_for
    return dispatcher
