"""The mutants' patches fit the code that they change, and name tests that there are."""

import re

import pytest

from tests.mutants.__main__ import ROOT, Mutant, apply, mutants


@pytest.mark.parametrize("mutant", mutants(), ids=lambda mutant: mutant.name)
def test_a_patch_fits_and_names_tests(mutant: Mutant) -> None:
    apply(mutant, ROOT, check=True)
    assert mutant.tests
    for test in mutant.tests:
        file, _, name = test.partition("::")
        assert re.search(rf"\b{name}\b", (ROOT / file).read_text()), test
