"""The stream file: what it may say, with types, defaults and one sentence for each mistake."""
