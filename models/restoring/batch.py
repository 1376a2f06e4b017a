"""Rules of the batch learners: the window of labels, and the model of it."""

from typing import Any

import numpy as np

from models.batch import forest as trees
from models.batch.learner import END, FIRST, LEARNED, NEXT, READY, SINCE
from models.contract import Schema
from models.restoring.arrays import Arrays
from models.restoring.drift import adwin, scale


def check(a: Arrays, learner: Any) -> None:
    fresh = learner.state()
    _labels(a, learner, fresh)
    _model(a, fresh, learner.schema)
    spread = a.take("errors_spread", fresh.errors_spread, None)
    scale(a, "errors_spread", spread)
    if len(spread) == len(fresh.errors_spread):  # otherwise they are not read
        counts, filled, *_ = a.fields(
            fresh, "errors_counts", "errors_filled", "errors_sums", "errors_totals", "errors_spreads"
        )
        adwin(a, counts, filled, fresh.errors_totals.shape[1] - 1, "errors_")


def _labels(a: Arrays, learner: Any, fresh: Any) -> None:
    x, at, _ = a.fields(fresh, "labels_x", "labels_at", "labels_totals", labels_x=(None, learner.schema.n_features))
    length, most = len(x), learner.window + learner._lag
    y, w = a.fields(fresh, "labels_y", "labels_w", labels_y=(length,), labels_w=(length,))
    a.require(length <= most, "labels_x", f"has {length} labels, and {most} are kept at most")
    a.counts("labels_at", at)
    learned = int(at[LEARNED])
    a.require(learned <= length or length == most, "labels_at", "has more labels than there are")
    a.within("labels_at", at[SINCE], 0, learned, "labels")
    if at[READY]:
        a.within("labels_at", at[END], 1, learned, "labels")
        a.within("labels_at", at[FIRST], max(0, learned - length), at[END] - 1, "labels")
        a.within("labels_at", at[READY], learned + 1, at[END] + max(1, learner._lag), "labels")
    else:
        a.require(at[NEXT] > learned, "labels_at", "has a fit that is due")
    n = min(length, learned)
    a.require(((w[:n] > 0.0) & (w[:n] < np.inf)).all(), "labels_w", "has weights that are none")
    if learner.schema.task == "classification":
        a.whole("labels_y", y[:n], 0, learner.schema.n_outputs - 1, "classes")
    else:
        a.finite("labels_y", y[:n])


def _model(a: Arrays, fresh: Any, schema: Schema) -> None:
    free: dict[str, tuple[int | None, ...]] = {f"model_{name}": (None,) for name in trees.Forest._fields}
    free |= {"model_values": (None, None), "model_kind": (trees.N_KIND,)}
    model = trees.Forest(*a.fields(fresh, *free, **free))
    n, k, n_columns, (n_leaves, n_values) = len(model.column), len(model.base), len(model.feature), model.values.shape
    for name, length in (
        ("threshold", n), ("left", n), ("right", n), ("missing", n), ("cover", n), ("weight", len(model.root)),
        ("group", len(model.root)), ("code", n_columns), ("centre", n_columns),
    ):  # fmt: skip
        a.take(f"model_{name}", getattr(fresh, f"model_{name}"), length)
    a.within("model_kind", model.kind[trees.LINK], trees.SUM, trees.MEDIAN)
    a.within("model_kind", model.kind[trees.FITTED], 0, 1)
    a.counts("model_kind", model.kind)
    a.within("model_column", model.column, -1, n_columns - 1, "columns")
    a.within("model_feature", model.feature, 0, schema.n_features - 1, "features")
    code = model.code[~np.isnan(model.code)]
    a.whole("model_code", code, 0, max((1, *schema.n_values)), "values")
    here, leaf = np.flatnonzero(model.column >= 0), model.column < 0
    children = np.concatenate([model.left[here], model.right[here]])
    a.owners("model_left", np.concatenate([here, here]), children, n, model.root)
    a.require((children > np.concatenate([here, here])).all(), "model_left", "has children before their parents")
    a.within("model_left", model.left[leaf], 0, n_leaves - 1, "leaves")
    a.within("model_missing", model.missing, 0, 1)
    a.within("model_group", model.group, trees.VECTOR, k - 1, "outputs")
    fitted, link = bool(model.kind[trees.FITTED]), int(model.kind[trees.LINK])
    whole = link != trees.MEDIAN and (model.group == trees.VECTOR).any()
    a.require(n_values >= 1 and (n_values == k or not whole), "model_values", "has another number of outputs")
    a.finite("model_weight", model.weight)
    a.require(not len(model.root) or model.weight.sum() > 0.0, "model_weight", "has no weight")
    a.finite("model_cover", model.cover)
    if fitted:
        a.require(k >= (2 if link == trees.LOGISTIC else 1), "model_base", "has no output")
        a.require(len(model.root) > 0 or link != trees.MEDIAN, "model_root", "has no tree")
    if schema.task == "classification":
        a.within("model_classes", model.classes, 0, schema.n_outputs - 1, "classes")
        a.require(len(model.classes) == k, "model_classes", f"has {len(model.classes)} classes, not {k}")
        a.require(len(np.unique(model.classes)) == k, "model_classes", "has a class twice")
    else:
        a.require(k <= 1, "model_base", "has more than one output")
