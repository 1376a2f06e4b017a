"""What may become of records, in the order of `PendingStore.counts`; pending.py says when each is counted."""

JOINED, EXPIRED, EVICTED, UNMATCHED, REPEATED_IDS, REPEATED_LABELS, CORRECTED, FORGOTTEN = 0, 1, 2, 3, 4, 5, 6, 7
NULL, ASSUMED, CORRECTIONS = 8, 9, 10
