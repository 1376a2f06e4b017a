"""Formats of records, each behind `topics.codecs.Codec`, in a folder of its own whose `codec` is to be read first.

`common` is what they lean on. `arrow` and `json_schema` lean on `json`, too; nothing else leans on another format.
"""
