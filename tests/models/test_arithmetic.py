"""Nothing of the fold takes from C's library or NumPy what has other bits on another processor."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = "models", "app/partition", "topics"
# By their names in math and NumPy: what these compute depends on the processor, and with sums of products so does BLAS.
OTHERS = {
    *(
        "exp",
        "exp2",
        "expm1",
        "log",
        "log1p",
        "log2",
        "log10",
        "logaddexp",
        "logaddexp2",
        "pow",
        "power",
        "float_power",
    ),
    *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "arcsin", "arccos", "arctan", "arctan2", "sinc"),
    *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "arcsinh", "arccosh", "arctanh"),
    *("erf", "erfc", "gamma", "lgamma", "hypot", "cbrt", "i0", "sumprod", "dist"),
    *(
        "dot",
        "vdot",
        "inner",
        "matmul",
        "tensordot",
        "einsum",
        "linalg",
        "fft",
        "convolve",
        "correlate",
        "corrcoef",
        "cov",
    ),
}
EXCEPTIONS = {
    "models/hoeffding/splitting/bounds.py": "bounds whose margin is 10^10 times what a last bit can do",
    "models/explanation/importance.py": "shown only",
    "models/soft/transparency.py": "shown only",
    "models/shrubs/description.py": "shown only",
    "models/batch/fit.py": "what a library fits is that library's, whose arithmetic is its own",
    "models/streams/generators/friedman.py": "makes records of its own",
    "models/streams/generators/sine.py": "makes records of its own",
    "models/streams/generators/payments.py": "makes records of its own",
}
WHOLE = {  # powers with a whole exponent: of whole numbers, of 2, and in a kernel
    ("models/shrubs/shrub_ensemble.py", "RATIO ** k"),
    ("models/regression/orto.py", "options.decay ** links[node, DEPTH]"),
    ("app/partition/keys/powers.py", "2.0 ** (-EPOCH)"),
    ("app/partition/keys/powers.py", "2.0 ** e"),
    ("models/kernels/elementary.py", "2.0 ** MADE_NORMAL"),
}


def is_number(node):
    of = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(of, ast.Constant) and isinstance(of.value, int | float)


def others(path):
    """Line and text of each place."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kernels = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and any("kernel" in ast.unparse(one) for one in node.decorator_list)
    ]
    in_kernels = {id(inner) for node in kernels for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            found = isinstance(node.value, ast.Name) and node.value.id in ("math", "np") and node.attr in OTHERS
        elif isinstance(node, ast.ImportFrom):
            found = node.module in ("math", "numpy") and bool({one.name for one in node.names} & OTHERS)
        elif isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Pow):
            base, exponent = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
            # In kernels a whole power is products, and of whole numbers it is a whole number.
            squared = id(node) in in_kernels and is_number(exponent) and "." not in ast.unparse(exponent)
            whole = is_number(base) and ("." not in ast.unparse(base) or is_number(exponent))
            found = not squared and not whole
        else:
            found = isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)
        if found:
            yield node.lineno, ast.unparse(node)


def places(folder):
    for path in sorted((ROOT / folder).rglob("*.py")):
        name = str(path.relative_to(ROOT))
        yield from ((name, line, text) for line, text in others(path) if (name, text) not in WHOLE)


@pytest.mark.parametrize("folder", FOLDERS)
def test_only_our_own_functions_are_called(folder):
    assert [place for place in places(folder) if place[0] not in EXCEPTIONS] == []


def test_no_exception_is_left_over():
    assert {name for folder in FOLDERS for name, _, _ in places(folder)} == set(EXCEPTIONS)


def test_other_uses_are_found(tmp_path):
    uses = ["math.exp", "np.log", "x ** 0.5", "x ** y", "x @ y", "np.dot", "x ** 2", "2.0 ** x"]
    fine = "2**x; 2.0**62; np.sum(x); math.floor(x); math.sqrt(x)"
    kernel = "@kernel(inline=True)\ndef f(x, y):\n    return x**2 + x**z"
    file = tmp_path / "uses.py"
    file.write_text("\n".join([*uses, fine, kernel]))
    assert sorted(text for _, text in others(file)) == sorted([*uses, "x ** z"])
