"""Commands about checkpoints: begin with `state`.

`export`, `import_`, `rollback` move them, and `audit` folds the records again to see whether they are right.
"""
