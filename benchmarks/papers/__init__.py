"""The tables and figures of the papers that the learners come from: the paper's number beside ours.

    python -m benchmarks.papers [NAME …] [--data ../shared/data] [--seeds 3] [--longest 1000000] [--out FOLDER]

One module per paper, named after it, with a `PAPER` (`frame.Paper`) that makes its tables. Each paper has a page in
docs/evidence/papers/, so that one paper can be measured again alone.

Beside them stand what papers compare with: `rank` (tests over several data sets, by `comparison`, `significance` and
`diagram`) and `permuting` (importance of features by permutation), each a command of its own.

`data` knows every data set of the papers: those that can be generated, and for the others where each is published. A
file of yours takes part when it is in the folder of `--data`, under the name and in the form that `data` says.
"""
