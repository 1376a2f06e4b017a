"""Commands that evaluate models without a worker: `evaluate` over a file, `backtest` over retained records."""
