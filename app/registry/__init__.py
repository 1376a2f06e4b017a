"""Schemas of a registry: asked for before records are folded, and held against the stream file."""
