"""Compiled kernels are found again while nothing that they are made of has changed, and only then."""

import fcntl
import inspect
import itertools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from numba.core import bytecode, caching, codegen, compiler, environment, postproc
from numba.core.cpu import CPUContext
from numba.core.dispatcher import Dispatcher, _FunctionCompiler
from numba.core.registry import cpu_target
from numba.core.types import functions

from riparian.models.kernels import cache as kernel_cache
from tests import forkserver
from tests.conftest import jit
from tests.processes import PATIENCE

ROOT = kernel_cache.ROOT


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Three modules: a uses b by a kernel, c is apart."""
    folder = tmp_path / "riparian" / "models"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "a.py").write_text("from riparian.models.b import (\n    step,\n)\n")
    (folder / "b.py").write_text("def step():\n    return 1\n")
    (folder / "c.py").write_text("import numpy\n")
    monkeypatch.setattr(kernel_cache, "ROOT", tmp_path)

    def forget():
        for known in ("_content", "_files", "_imports", "folder_of"):
            getattr(kernel_cache, known).cache_clear()

    def folders():
        forget()
        return {name: kernel_cache.folder_of(str(folder / f"{name}.py")) for name in "abc"}

    yield folder, folders
    forget()


def test_an_edit_reaches_whoever_calls_the_kernel_and_nobody_else(package):
    folder, folders = package
    before = folders()
    assert folders() == before
    (folder / "b.py").write_text("def step():\n    return 2\n")
    after = folders()
    assert {name for name in "abc" if before[name] != after[name]} == {"a", "b"}


def test_what_a_file_imports_from_a_folder_is_all_of_the_folder(package):
    folder, folders = package
    (folder / "more").mkdir()
    (folder / "more" / "d.py").write_text("x = 1\n")
    (folder / "more" / "e.py").write_text("x = 1\n")
    (folder / "b.py").write_text("from riparian.models.more import d, e\n")
    (folder / "c.py").write_text("from riparian.models.more import x\n")  # of whichever of them
    before = folders()
    (folder / "more" / "d.py").write_text("x = 2\n")
    assert {name for name in "abc" if before[name] != folders()[name]} == {"a", "b", "c"}
    before = folders()
    (folder / "more" / "f.py").write_text("x = 3\n")  # no module that is named
    assert {name for name in "abc" if before[name] != folders()[name]} == {"c"}


def test_the_kernels_of_this_project_depend_on_their_helpers():
    files = kernel_cache._imports(str(ROOT / "riparian" / "models" / "hoeffding" / "loop.py"))
    assert str(ROOT / "riparian" / "models" / "observers" / "gaussians.py") in files
    assert str(ROOT / "riparian" / "models" / "kernels" / "kernel.py") in files
    files = kernel_cache._imports(str(ROOT / "riparian" / "topics" / "formats" / "json" / "writing.py"))
    assert str(ROOT / "riparian" / "topics" / "formats" / "json" / "shortest.py") in files
    files = kernel_cache._imports(str(ROOT / "riparian" / "app" / "kafka" / "wire_format" / "record_batches.py"))
    assert str(ROOT / "riparian" / "app" / "kafka" / "wire_format" / "batches.py") in files
    assert str(ROOT / "riparian" / "app" / "kafka" / "local_broker" / "broker.py") not in files


# A process that is forked finds the folder of its own environment.
FORKED = """
from riparian.models.kernels import cache as kernel_cache

for known in (kernel_cache.kept_in, kernel_cache.folder_of):
    known.cache_clear()
"""

KERNEL = """
import sys
import tempfile
import time
from riparian.models.kernels import cache as kernel_cache
from riparian.models.kernels.kernel import kernel

if sys.argv[2:]:
    kernel_cache.PATIENCE_SECONDS = 0.1

def scaled(factor):
    @kernel
    def run(x):
        return factor * x

    return run

def slowly(compile_one):
    def run(*args):
        time.sleep(0.5)
        return compile_one(*args)

    return run

for factor in map(int, sys.argv[1]):
    run = scaled(factor)
    run._compiler.compile = slowly(run._compiler.compile)
    found = run(10)
    print(factor, found, sum(run.stats.cache_misses.values()))
"""


@pytest.fixture
def start(tmp_path):
    """Starts processes that call variants of one kernel, a variant for each digit of their argument."""
    (tmp_path / "variants.py").write_text(FORKED + KERNEL)

    def process(*arguments, folder=tmp_path):
        said = Path(tempfile.mkdtemp(dir=tmp_path)) / "said"
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
        with said.open("wb") as file:
            command = ["variants", *arguments]
            return forkserver.Process(command, stdout=file.fileno(), stderr=2, cwd=tmp_path, env=environment), said

    return process


def told(started):
    """(factor, what it gave for 10, how often it was compiled) of each variant."""
    process, said = started
    assert process.wait(timeout=PATIENCE) == 0
    return [tuple(map(int, line.split())) for line in said.read_text().splitlines()]


@jit
def test_processes_compile_each_variant_once_and_mix_up_none(start):
    processes = [start(factors) for factors in ("1234", "4321", "2143")]
    found = [row for process in processes for row in told(process)]
    assert all(result == 10 * factor for factor, result, _ in found)
    assert sorted(factor for factor, _, compiled in found if compiled) == [1, 2, 3, 4]
    # All of them are in the cache, under their own names.
    assert told(start("1234")) == [(factor, 10 * factor, 0) for factor in (1, 2, 3, 4)]


SAME_NAMES = """
import sys
import tempfile
from riparian.models.kernels.kernel import kernel

def scaled(factor):
    @kernel
    def fibonacci(n):
        if n < 2:
            return n * factor
        return fibonacci(n - 1) + fibonacci(n - 2)

    return fibonacci

single, double = scaled(1), scaled(2)

@kernel
def one(n):
    return single(n)

@kernel
def two(n):
    return double(n)

for factor in map(int, sys.argv[1]):
    run = (one, two)[factor - 1]
    print(factor, run(10), sum(run.stats.cache_misses.values()))
"""


@jit
def test_variants_of_a_kernel_from_several_processes_are_told_apart_in_one(start, tmp_path):
    """numba numbers what it compiles in a process, and names machine code by it: these are the first of each."""
    (tmp_path / "variants.py").write_text(FORKED + SAME_NAMES)
    assert told(start("1")) == [(1, 55, 1)]
    assert told(start("2")) == [(2, 110, 1)]
    assert told(start("12")) == [(1, 55, 0), (2, 110, 0)]


@jit
def test_a_process_that_was_stopped_while_it_compiled_is_not_waited_for_for_ever(start, tmp_path):
    assert told(start("1")) == [(1, 10, 1)]
    (lock,) = tmp_path.rglob("*.lock")
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert told(start("12", "impatient")) == [(1, 10, 1), (2, 20, 1)]
    assert told(start("12")) == [(1, 10, 0), (2, 20, 1)]  # without the lock, nothing was saved


INNER = """
import sys
import tempfile
import numpy as np
from riparian.models.kernels.kernel import kernel

@kernel(inline=True)
def half(x):
    return x / 2

@kernel
def inner(x):
    total = 0.0
    for i in range(len(x)):
        total += half(x[i])
    return total

@kernel(allocates=True)
def both(x):
    y = np.empty(len(x))
    for i in range(len(x)):
        y[i] = x[i] + 1
    return inner(y) + inner(x)

@kernel
def twice(x):
    return 2 * inner(x)
"""

CALLS = """
from inner import inner, both, twice, np, sys

for kernel in (inner, both, twice):
    if kernel.__name__ in sys.argv[1:]:
        print(kernel(np.arange(4.0)), sum(kernel.stats.cache_misses.values()))
loaded = "numba.np.arraymath" in sys.modules, "numba.cpython.unicode" in sys.modules
print(*map(int, loaded))
"""


@jit
def test_a_kernel_from_the_cache_waits_for_nothing_that_compiles_kernels(tmp_path):
    (tmp_path / "inner.py").write_text(INNER)
    (tmp_path / "calls.py").write_text(CALLS)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kept"), "PYTHONPATH": str(ROOT)}

    def call(*names):
        command = [sys.executable, str(tmp_path / "calls.py"), *names]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=PATIENCE)
        return [tuple(map(float, line.split())) for line in done.stdout.splitlines()]

    assert call("inner") == [(3, 1), (1, 1)]
    assert call("inner") == [(3, 0), (0, 0)]
    # What both make is what they would make by themselves.
    assert call("inner", "both") == [(3, 0), (8, 1), (1, 1)]
    assert call("both") == [(8, 0), (0, 0)]
    # One that is compiled with it inside takes its bitcode from the cache.
    assert call("twice") == [(6, 1), (1, 1)]
    assert call("inner", "both", "twice") == [(3, 0), (8, 0), (6, 0), (0, 0)]


NESTED = """
from inner import both, half, inner, np, twice

for kernel in (both, inner, twice, both):
    print(kernel(np.arange(4.0)), *(sum(one.stats.cache_misses.values()) for one in (both, twice, inner, half)))
"""


@jit
def test_a_kernel_within_others_is_compiled_once_for_them_and_once_for_python(tmp_path):
    (tmp_path / "inner.py").write_text(INNER)
    (tmp_path / "nested.py").write_text(FORKED + NESTED)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kept")}

    def call():
        done = forkserver.run(["nested"], env=environment, cwd=tmp_path, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        return [tuple(map(float, line.split())) for line in done.stdout.splitlines()]

    # Of each call the result, and how often `both`, `twice`, `inner` and `half` have been compiled by then.
    assert call() == [(8, 1, 0, 1, 1), (3, 1, 0, 2, 1), (6, 1, 1, 2, 1), (8, 1, 1, 2, 1)]
    assert call() == [(8, 0, 0, 0, 0), (3, 0, 0, 0, 0), (6, 0, 0, 0, 0), (8, 0, 0, 0, 0)]


@jit
def test_a_cache_that_cannot_be_written_is_done_without(start, tmp_path):
    (tmp_path / "file").touch()
    assert told(start("1", folder=tmp_path / "file")) == [(1, 10, 1)]


def test_private_parts_of_numba_are_still_there():
    def parameters(function):
        return list(inspect.signature(function).parameters)

    library = codegen.JITCodeLibrary
    assert parameters(library._unserialize) == ["codegen", "state"]
    assert parameters(library._get_module_for_linking) == ["self"]
    assert parameters(library._set_compiled_object) == ["self", "value"]
    assert parameters(library._finalize_final_module) == parameters(library.enable_object_caching) == ["self"]
    assert parameters(codegen.JITCPUCodegen.unserialize_library) == ["self", "serialized"]
    assert codegen.JITCPUCodegen._library_class is library
    assert parameters(Dispatcher._compilation_chain_init_hook) == ["self"]
    assert parameters(codegen.JitEngine._load_defined_symbols) == ["self", "mod"]
    for name in ("_optimize_functions", "_optimize_final_module", "_finalize_dynamic_globals"):
        assert hasattr(library, name)
    assert parameters(library._verify_declare_only_symbols) == ["self"]
    assert parameters(library.serialize_using_object_code) == ["self"]
    assert (
        parameters(CPUContext.create_cpython_wrapper)[1] == parameters(CPUContext.create_cfunc_wrapper)[1] == "library"
    )
    assert parameters(CPUContext.get_executable) == ["self", "library", "fndesc", "env"]
    assert type(cpu_target.target_context) is CPUContext
    assert parameters(functions.BaseFunction.get_call_type) == ["self", "context", "args", "kws"]
    assert parameters(postproc.PostProcessor.run) == ["self", "emit_dels", "extend_lifetimes"]
    assert parameters(postproc.PostProcessor._insert_var_dels) == ["self", "extend_lifetimes"]
    assert parameters(_FunctionCompiler._customize_flags) == ["self", "flags"]
    assert type(bytecode.FunctionIdentity._unique_ids) is itertools.count
    assert parameters(environment._rebuild_env) == ["modname", "consts", "env_name"]
    assert parameters(caching.IndexDataCacheFile) == ["cache_path", "filename_base", "source_stamp"]
    for name in ("load_overload", "save_overload", "_index_key"):
        assert parameters(getattr(caching.FunctionCache, name))[1] == "sig"
    # What `_reduce` gives is what `_rebuild` takes, behind the context.
    assert parameters(compiler.CompileResult._rebuild)[1:] == [
        *("libdata", "fndesc", "env", "signature", "objectmode", "lifted", "typeann", "reload_init", "referenced_envs")
    ]


@pytest.mark.parametrize("lacks", ["home", "a folder", "nothing"])
def test_where_nothing_can_be_kept_a_temporary_folder_of_our_own_is_taken(tmp_path, monkeypatch, lacks):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "file").touch()
    home = {"home": homeless, "a folder": lambda: tmp_path / "file", "nothing": lambda: tmp_path / "home"}[lacks]
    monkeypatch.setattr(kernel_cache.Path, "home", home)
    own = tmp_path / f"riparian-{os.getuid()}"
    found = kernel_cache.kept_in.__wrapped__()
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    if lacks == "nothing":
        assert found == (tmp_path / "home" / ".cache" / "riparian", None)
        return
    assert found.folder == own
    assert str(own) in found.lost
    assert ("no home folder" if lacks == "home" else f"{tmp_path}/file/.cache/riparian cannot be made") in found.lost
    own.chmod(0o777)  # somebody else may write code there
    found = kernel_cache.kept_in.__wrapped__()
    assert found.folder.parent == tmp_path
    assert found.folder != own
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    assert "they cannot be kept" in kernel_cache.kept_in.__wrapped__().lost


def test_where_a_disk_is_full_kernels_are_not_said_to_be_kept(tmp_path, monkeypatch):
    home, free = tmp_path / "home" / ".cache" / "riparian", {}
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(kernel_cache.Path, "home", lambda: tmp_path / "home")
    usage = kernel_cache.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(kernel_cache.shutil, "disk_usage", lambda folder: usage._replace(free=free.get(folder, 10**9)))

    def lost(base=""):
        monkeypatch.setenv("NUMBA_CACHE_DIR", base)
        return kernel_cache.kept_in.__wrapped__().lost

    assert lost() is lost(str(tmp_path / "other")) is None
    free[tmp_path / "other"] = 0
    assert lost(str(tmp_path / "other")) == f"they cannot be kept, as the disk of {tmp_path}/other is full"
    free[home] = 0
    own = tmp_path / f"riparian-{os.getuid()}"
    assert lost() == f"they are kept in {own}, as the disk of {home} is full"
    free[own] = 0
    assert lost() == f"they cannot be kept, as the disk of {home} is full, and the disk of {own} is full"
    (home / "kernels-1").mkdir()  # some are there: others cannot be kept
    assert lost() == f"they cannot be kept, as the disk of {home} is full"
