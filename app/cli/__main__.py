"""`python -m app.cli` is `riparian`."""

from app.cli import main

main()
