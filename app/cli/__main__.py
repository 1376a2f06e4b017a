"""`python -m riparian.app.cli` is `riparian`."""

from riparian.app.cli import main

main()
