"""The demo: everything at once on one machine."""
