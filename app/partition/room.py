"""What waits takes so many bytes besides features, predictions and id. By themselves, so that a command which only
reckons with them does not wait for the kernels."""

ROW_BYTES = 128  # of a waiting instance: entry, slots, queue, segments
PLACE_BYTES = 16  # of a bag, beside its instances: where they begin, and how many
