"""The stream file's `promotion` section: the rule by which a challenger becomes the champion."""

from typing import Literal

from pydantic import Field

from riparian.app.stream_file.sections.base import ShortForm

PROPOSE, AUTOMATIC = "propose", "automatic"
CONFIDENCE = 0.95  # probability, by default, that all intervals of the challengers of one champion hold
PACE = 250  # labels between the places where a trial begins or ends, and where the rule of promotion looks


class PromotionSpec(ShortForm):
    """The rule by which a challenger becomes the champion. `promotion: automatic` for the mode alone."""

    brief = ("mode", (str,))

    mode: Literal["propose", "automatic"] = Field(
        description="`automatic`: a challenger that is surely better becomes the champion. `propose`: an event says "
        "so, once, and `riparian promote` does it."
    )
    margin: float = Field(
        default=0.0,
        ge=0,
        description="By how much its mean loss has to be lower for sure: 0.01 is one error in a hundred labels; for "
        "regression, in the target's unit.",
    )
    at_least: int = Field(
        default=1000, ge=PACE, le=1_000_000_000, description="Labels over which it has to be better, at least."
    )
    confidence: float = Field(
        default=CONFIDENCE,
        gt=0.5,
        lt=1,
        description="Probability that no interval of a challenger beside one champion is ever wrong.",
    )
