"""The stream file's `champion` and `challengers`: a learner, and what is done when its errors rise."""

from typing import Any, Literal

from pydantic import ConfigDict, Field

from riparian.app.stream_file.sections.base import ShortForm

NOTHING, ALERT, RESET, REPLACE = "nothing", "alert", "reset", "replace"
OnDrift = Literal["nothing", "alert", "reset", "replace"]
AUTO = "auto"


class ModelSpec(ShortForm):
    """A learner of `riparian models`, and its parameters beside it."""

    brief = ("model", (str,))
    model_config = ConfigDict(extra="allow", protected_namespaces=())

    model: str = Field(description="Name of a learner. Its parameters are fields beside it: see `riparian models`.")
    on_drift: OnDrift | None = Field(
        default=None, description="What is done when its errors rise. Default: what `drift.on_drift` says."
    )

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters that the file gives; `Spec.models()` has them complete and checked."""
        return dict(self.model_extra or {})
