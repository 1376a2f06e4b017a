"""What may be done on the event loop: as much as took little processor time before."""

# That work may hold up the event loop. The way to another thread and back takes longer, since both hold the
# interpreter's lock in turn: with 2 ms here all steps of a pool went that way, and answers took twice as long.
BRIEF_SECONDS = 0.01
FEW = 512  # records, at most, that are worked on there


class Brief:
    """How many records one kind of work may have on the event loop.

    Attributes
    ----------
    most : int
        Records whose work is brief, as far as it is known.
    """

    def __init__(self) -> None:
        self.most = 0

    def judge(self, n: int, seconds: float) -> None:
        """Work on n records took so much processor time: the clock would also count what others did meanwhile."""
        if seconds < BRIEF_SECONDS / 2:
            self.most = max(self.most, min(2 * n, FEW))
        elif seconds > BRIEF_SECONDS:
            self.most = min(self.most, n // 2)
