"""The documentation: pages, and (`__main__`) the parts of them that are made from the code. Not part of the package."""
