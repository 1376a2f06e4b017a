"""Features over a key's past: what was seen of a card, a device or a user up to each record."""
