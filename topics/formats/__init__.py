"""Formats of records, each behind `topics.codecs.Codec`."""
