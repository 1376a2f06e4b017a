"""The naive twin of models/evaluation/prequential.py: every scored label in a list, each metric from its definition."""

import math

from riparian.models.kernels import elementary

NEGLIGIBLE = 1e-6  # of all weight that has not faded


class NaivePrequential:
    """Metrics over the list of all labels; `window` and `fading` pick and weigh them when asked."""

    def __init__(self, task, window=1000, fading=None):
        self.task, self.window, self.fading = task, window, fading
        self.labels = []  # dicts

    def score(self, label, prediction, weight=1.0):
        """prediction : list of probabilities, or [value]."""
        if weight == 0:
            return
        seen = {int(item["label"]) for item in self.labels} | {int(label)}
        item = {"label": label, "weight": weight, "previous": self.labels[-1]["label"] if self.labels else None}
        if self.task == "classification":
            if sum(prediction) == 0:
                item |= {"prediction": None, "loss": elementary.log(len(seen))}
                item["p"] = dict.fromkeys(seen, 1 / len(seen))
            else:
                best = max(prediction)
                item["prediction"] = prediction.index(best)
                item["loss"] = -elementary.log(max(prediction[int(label)], 1e-15))
                item["p"] = dict(enumerate(prediction))
        else:
            item["prediction"] = prediction[0]
        self.labels.append(item)

    def metrics(self):
        return self._summary(self.labels, [item["weight"] for item in self.labels], len(self.labels))

    def windowed(self):
        if self.fading is None:
            items = self.labels[-self.window :]
            area = {} if self.auroc() is None else {"auroc": self.auroc()}
            return self._summary(items, [item["weight"] for item in items], len(items)) | area
        n = len(self.labels)
        weights = [item["weight"] * self.fading ** (n - 1 - i) for i, item in enumerate(self.labels)]
        return self._summary(self.labels, weights, n, NEGLIGIBLE)

    def by_class(self, recent):
        """Class -> n, recall, precision, f1, each from its definition."""
        items, n = (self.labels[-self.window :] if recent and self.fading is None else self.labels), len(self.labels)
        fades = recent and self.fading is not None
        weights = [item["weight"] * (self.fading ** (n - 1 - i) if fades else 1.0) for i, item in enumerate(items)]

        def total(holds):
            return sum(weight for item, weight in zip(items, weights, strict=True) if holds(item))

        found, least = {}, NEGLIGIBLE * sum(weights) if fades else 0.0
        for k in {int(item["label"]) for item in items} | {item["prediction"] for item in items} - {None}:
            labels, guesses = total(lambda item, k=k: item["label"] == k), total(lambda i, k=k: i["prediction"] == k)
            hits = total(lambda item, k=k: item["label"] == item["prediction"] == k)
            if labels + guesses <= least:
                continue
            found[k] = {"n": labels, "f1": 2 * hits / (labels + guesses)}
            found[k] |= {"recall": hits / labels} if labels > least else {}
            found[k] |= {"precision": hits / guesses} if guesses > least else {}
            found[k] |= {"auroc": self.areas()[k]} if recent and k in self.areas() else {}
        return found

    def areas(self, since=0):
        """Of the first 20 classes of which there is a label in the window, and one of others: the chance that such a
        label had the greater probability of the class, pair by pair. since : the first label that counts."""
        if self.task != "classification" or self.fading is not None:
            return {}
        items, found = self.labels[max(since, len(self.labels) - self.window) :], {}
        for k in range(20):
            pairs = [(a, b) for a in items for b in items if a["label"] == k != b["label"]]
            if pairs:
                won = [
                    float(a["p"].get(k, 0) > b["p"].get(k, 0)) + (a["p"].get(k, 0) == b["p"].get(k, 0)) / 2
                    for a, b in pairs
                ]
                weights = [a["weight"] * b["weight"] for a, b in pairs]
                found[k] = sum(x * weight for x, weight in zip(won, weights, strict=True)) / sum(weights)
        return found

    def auroc(self, since=0):
        """Their mean; of two classes that of the second. None where there is none."""
        found = self.areas(since)
        classes = {item["label"] for item in self.labels[max(since, len(self.labels) - self.window) :]}
        if not found:
            return None
        return found[max(found)] if len(classes) == 2 else sum(found.values()) / len(found)

    def _summary(self, items, weights, n, least=0.0):
        """least : the share of all weight up to which a class did not occur."""
        total = sum(weights)
        if not items or total == 0:
            return {"n": n}
        pairs = list(zip(items, weights, strict=True))

        def mean(value):
            return sum(weight * value(item) for item, weight in pairs) / total

        if self.task == "regression":
            average = mean(lambda item: item["label"])
            error = mean(lambda item: (item["label"] - item["prediction"]) ** 2)
            spread = mean(lambda item: (item["label"] - average) ** 2)
            result = {
                "n": n,
                "mae": mean(lambda item: abs(item["label"] - item["prediction"])),
                "rmse": math.sqrt(error),
            }
            if len({item["label"] for item in items}) > 1:
                result["r2"] = 1 - error / spread
            return result

        accuracy = mean(lambda item: item["label"] == item["prediction"])
        repetition = mean(lambda item: item["label"] == item["previous"])
        classes = {int(item["label"]) for item in items} | {
            item["prediction"] for item in items if item["prediction"] is not None
        }
        chance = sum(
            mean(lambda item, k=k: item["label"] == k) * mean(lambda item, k=k: item["prediction"] == k)
            for k in classes
        )
        scores = []
        for k in classes:
            if mean(lambda item, k=k: (item["label"] == k) + (item["prediction"] == k)) <= least:
                continue
            hits = mean(lambda item, k=k: item["label"] == k and item["prediction"] == k)
            precision_base = mean(lambda item, k=k: item["prediction"] == k)
            recall_base = mean(lambda item, k=k: item["label"] == k)
            if hits == 0:
                scores.append(0.0)
            else:
                precision, recall = hits / precision_base, hits / recall_base
                scores.append(2 * precision * recall / (precision + recall))
        recalls = []
        for k in {int(item["label"]) for item, weight in pairs if weight > 0}:
            if mean(lambda item, k=k: item["label"] == k) <= least:
                continue
            hits = mean(lambda item, k=k: item["label"] == k and item["prediction"] == k)
            recalls.append(hits / mean(lambda item, k=k: item["label"] == k))
        result = {
            "n": n,
            "accuracy": accuracy,
            "balanced_accuracy": sum(recalls) / len(recalls),
            "log_loss": mean(lambda item: item["loss"]),
            "f1_macro": sum(scores) / len(scores),
        }
        some = len(classes) > 1 or any(item["prediction"] is None for item in items)
        if some and chance < 1 - least:
            result["kappa"] = (accuracy - chance) / (1 - chance)
        if any(item["label"] != item["previous"] for item in items) and repetition < 1 - least:
            result["kappa_temporal"] = (accuracy - repetition) / (1 - repetition)
        return result
