"""Topics copied by the ids of their records (`rekey` in the stream file): begin with `copying`.

`claims`: who copies a source partition; `order`: of the records of several; `copied`: how far they have come.
"""
