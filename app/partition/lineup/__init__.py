"""The models of a stream, and what follows from one log of labelled instances: begin with `lineup`.

- `model_slot`: one model, its scores and detectors; `background_learner`: a fresh one on trial beside it.
- `comparing`: challengers beside the champion; `model_commands`: commands obeyed; `promotion`: events of both.
- `learned_rows`, `memos`: rows to learn, and what a model keeps beside instances for their labels.
"""
