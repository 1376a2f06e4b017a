"""How kernels are compiled: what Python calls, and in it whatever that calls.

numba makes of each function that a kernel calls what it makes of the kernel: two wrappers, LLVM's optimisations of all
that was linked into it, and machine code. Of these only the kernel's own are ever used: it takes its callees' bitcode,
and optimises and translates that once more. So here what is compiled within a kernel, the *inner* functions, ends as
bitcode that is simplified and no more. A kernel that is also called by Python is compiled for both.

numba also tries the variants of an operator until one fits the types of its arguments, several times at each place
where it stands; and works out after each of its passes which variables a block begins with, which only generators and
kernels that handle Python's objects need. Here the first is done once a process, and the second not at all.

Private parts of numba are overridden for it; tests/models/test_kernel_cache.py checks that they are still there.
"""

import gc
import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import bytecode, codegen
from numba.core.cpu import CPUContext
from numba.core.environment import lookup_environment
from numba.core.postproc import PostProcessor, VariableLifetime
from numba.core.registry import cpu_target
from numba.core.targetconfig import ConfigStack
from numba.core.transforms import canonicalize_cfg
from numba.core.types.functions import BaseFunction

# Compiling leaves many objects that stay: looking through them as often as Python does is an eighth of its time.
THRESHOLD = 100_000

_depth = 0


def depth() -> int:
    """How many kernels are being compiled, each within the one before, by who holds the compiler's lock."""
    return _depth


class Library(codegen.JITCodeLibrary):  # type: ignore[misc]
    """The code of a function, of numba or of ours, that is compiled in a kernel or is one.

    called : whether it has a wrapper, by which Python calls it; otherwise it never becomes machine code.
    """

    called = False

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout
        passes, builder = self._codegen._function_pass_manager()  # one for all functions: it takes long to make
        for function in module.functions:
            if not function.is_declaration:
                passes.run(function, builder)

    def _optimize_final_module(self) -> None:
        if self.called:
            super()._optimize_final_module()

    def _finalize_final_module(self) -> None:
        if self.called:
            super()._finalize_final_module()
            return
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def serialize_using_object_code(self) -> Any:
        if self.called:
            return self.name, "object", (self._get_compiled_object(), b"")
        return self.name, "object", (b"", self._get_module_for_linking().as_bitcode())


class _CompilerContext(CPUContext):  # type: ignore[misc]
    """What numba compiles for. It is as it was for whatever is compiled by others."""

    def create_cpython_wrapper(self, library: Any, *arguments: Any, **named: Any) -> None:
        if isinstance(library, Library):
            library.called = True
        super().create_cpython_wrapper(library, *arguments, **named)

    def create_cfunc_wrapper(self, library: Any, *arguments: Any) -> None:
        """For callers in C, of which kernels have none."""
        if not isinstance(library, Library):
            super().create_cfunc_wrapper(library, *arguments)

    def get_executable(self, library: Any, fndesc: Any, env: Any) -> Any:
        if not isinstance(library, Library):
            return super().get_executable(library, fndesc, env)
        library._ensure_finalized()
        if not library.called:
            return not_called()
        found = super().get_executable(library, fndesc, env)
        for variable in library._final_module.global_variables:
            own = lookup_environment(variable.name)
            if own is not None:  # that of an inner function, which has its place here alone
                library.codegen.set_env(variable.name, own)
        return found


def not_called() -> Any:
    """The entry point of an inner function: numba asks for a builtin, a new one each. It refuses all arguments of
    kernels."""
    return [].reverse


_find_type, _process = BaseFunction.get_call_type, PostProcessor.run


def _call_type(function: Any, context: Any, args: Any, kws: Any) -> Any:
    """The signature by which an operator or a function of numba is called with arguments of these types."""
    flags = ConfigStack.top_or_none()  # of the kernel; these two are handed on to what it calls
    known = vars(function).setdefault("_signatures", {})
    place = tuple(args), tuple(kws.items()), flags.nrt, flags.forceinline
    if place not in known:
        known[place] = _find_type(function, context, args, kws)
    return known[place]


def _after_pass(self: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
    """What numba does after a pass, but for the variables that a block begins with; and their ends are written only
    where references are counted, which is all that they are for."""
    code = self.func_ir
    if code.is_generator:
        _process(self, emit_dels, extend_lifetimes)
        return
    code.blocks = canonicalize_cfg(code.blocks)
    code.variable_lifetime, code.generator_info = VariableLifetime(code.blocks), None
    if emit_dels and ConfigStack.top_or_none().nrt:
        self._insert_var_dels(extend_lifetimes=extend_lifetimes)


@contextmanager
def compiling() -> Iterator[None]:
    """Compile a kernel as is described above; with the compiler's lock."""
    global _depth
    outermost = _depth == 0
    context: Any = cpu_target.target_context
    called: Any = BaseFunction
    passed: Any = PostProcessor
    made = context.codegen()
    if outermost:
        context.__class__ = _CompilerContext
        made._library_class = Library
        called.get_call_type, passed.run = _call_type, _after_pass
        threshold = gc.get_threshold()
        gc.set_threshold(max(THRESHOLD, threshold[0]), *threshold[1:])
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if outermost:
            gc.set_threshold(*threshold)
            del made._library_class
            called.get_call_type, passed.run = _find_type, _process
            context.__class__ = CPUContext


def without_wrapper(flags: Any) -> Any:
    """Of a kernel: compiled in another one it needs none."""
    if _depth > 1:
        flags.no_cpython_wrapper = True
    return flags


# numba numbers functions by process, and names them by it in machine code. What was compiled by several processes is
# loaded by one, which would take one variant of a kernel for another that has its name and number.
bytecode.FunctionIdentity._unique_ids = itertools.count(int.from_bytes(os.urandom(6)))
