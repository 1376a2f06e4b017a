"""What waits takes so many bytes besides features, predictions and id. By themselves, so that a command which only
reckons with them does not wait for the kernels."""

ROW_BYTES = 128  # memory of a waiting instance besides its row, bytes: entry, slots, queue, segments
INDEX_BYTES = 26  # of these, what stays in memory where rows lie in files: slots, segments
QUEUE_BYTES = 40  # memory beside these, where a later record of the key is the label: its slots, at most
LEAST_BYTES = 64 * 1024 * 1024  # memory up to which little of a partition lies in files
PLACE_BYTES = 16  # memory of a bag besides its instances, bytes: where they begin, and how many
OF_ROW = 3  # columns beside a waiting instance whose label comes from the stream itself
JOINED_BYTES = 24  # memory of a joined id that is remembered, bytes: 16, and what finds it


def most_joined(max_pending: int, max_bytes: int) -> int:
    """How many joined ids are remembered: as many as instances may wait, or fit into their bytes."""
    return min(max_pending, max_bytes // JOINED_BYTES, 2**30)
