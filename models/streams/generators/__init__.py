"""Generators, one a module: `source(seed, **parameters) -> Source`. Read sea.py first, the shortest."""
