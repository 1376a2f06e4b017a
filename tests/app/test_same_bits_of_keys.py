"""Features over a key's past have the same bits where C's library and NumPy choose nothing by the processor.

In a process of its own (`python -m tests.app.test_same_bits_of_keys TASK`), which is given the events: Python draws
others there.
"""

import hashlib
import json
import os
import subprocess
import sys

import pytest
from numpy._core._multiarray_umath import __cpu_features__

from tests.app.test_past import CLASSES, NUMBERS, drawn, folded, spec_of
from tests.models.test_same_bits import PLAIN, ROOT, libraries

KINDS = {kind["task"]: kind for kind in (CLASSES, NUMBERS)}


def bits_of(task, events):
    """What the libraries come to, and hashes of all features and of the state."""
    x, learner = folded(spec_of(KINDS[task]), events, [len(events) // 2])
    return {**libraries(), "features": hashlib.sha256(x.tobytes()).hexdigest(), "state": learner.digest()}


@pytest.mark.parametrize("task", KINDS)
def test_aggregates_do_not_depend_on_what_the_libraries_choose_by_the_processor(task):
    if not __cpu_features__.get("FMA3"):
        pytest.skip("this processor has no fused multiply-add: nothing could be switched off")
    events = drawn(5, KINDS[task], 5000, cards=60)
    here = bits_of(task, events)  # kernels are compiled by then
    done = subprocess.run(
        [sys.executable, "-m", "tests.app.test_same_bits_of_keys", task],
        cwd=ROOT,
        env={**os.environ, **PLAIN},
        input=json.dumps(events).encode(),
        capture_output=True,
        check=False,
    )
    assert not done.returncode, done.stderr.decode()
    there = json.loads(done.stdout)
    assert {name for name, bits in here.items() if there[name] != bits} == {"math", "numpy"}


if __name__ == "__main__":
    json.dump(bits_of(sys.argv[1], json.load(sys.stdin)), sys.stdout)
