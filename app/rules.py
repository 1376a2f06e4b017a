"""The rules of soft trees, and the candidates of a pool, as text: for `riparian inspect`. Pure."""

from collections.abc import Mapping
from typing import Any

SHOWN_TERMS = 4  # terms shown of a linear form, those with the largest weights
SHOWN_FEATURES = 3  # the most important ones


def percent(share: float) -> str:
    return f"{100.0 * share:.0f} %"


def linear_form(gate: Mapping[str, Any]) -> str:
    """`2.1 size − 0.4 [colour = blue] … + 0.1`, a named gate's form in normalised units."""
    ranked = sorted(gate["weights"], key=lambda term: -abs(term["weight"]))
    terms = [
        (term["weight"], f"[{term['feature']} = {term['equals']}]" if "equals" in term else term["feature"])
        for term in ranked[:SHOWN_TERMS]
    ]
    signed = [(weight, f"{abs(weight):.3g} {name}") for weight, name in terms]
    if len(ranked) > SHOWN_TERMS:
        signed.append((1.0, f"… {len(ranked) - SHOWN_TERMS} more"))
    signed.append((gate["bias"], f"{abs(gate['bias']):.3g}"))
    first, *others = signed
    text = ("−" if first[0] < 0.0 else "") + first[1]
    return text + "".join(f" {'−' if weight < 0.0 else '+'} {term}" for weight, term in others)


def rule(node: Mapping[str, Any]) -> str:
    """The share of an instance that a named soft node sends to its first child: Eq. 2, and what matters in it."""
    gate = node["gate"]
    soft = f"S({linear_form(gate)})"
    if "feature" in node and gate["alpha"] < 1.0:
        test = f"= {node['equals']}" if "equals" in node else f"≤ {node['threshold']:.6g}"
        soft = f"{1.0 - gate['alpha']:.3g} [{node['feature']} {test}] + {gate['alpha']:.3g} {soft}"
    importance = gate["importance"]
    ranked = sorted(importance.items(), key=lambda item: -item[1])[:SHOWN_FEATURES]
    shown = ", ".join(f"{name} {percent(share)}" for name, share in ranked if share > 0.0)
    return f"{soft}; {gate['important']} of {len(importance)} features matter" + (f": {shown}" if shown else "")


def candidate(part: Mapping[str, Any]) -> str:
    """`alpha=0.2, max_depth=5` of a pool's candidate."""
    return ", ".join(f"{name}={value}" for name, value in part["parameters"].items()) or "as by default"


def standing(part: Mapping[str, Any]) -> str:
    """How a pool's candidate does."""
    return f"loss {part['loss']:.4g}, learned {part['weight']:,.0f}" + (", predicts" if part.get("best") else "")


def named_gate(gate: Mapping[str, Any], features: list[str], value: Any) -> dict[str, Any]:
    """A gate with features and values by name. value : (feature, code) -> text."""
    terms = [
        {**term, "feature": features[term["feature"]]}
        | ({"equals": value(term["feature"], term["equals"])} if "equals" in term else {})
        for term in gate["weights"]
    ]
    by_feature = {key: dict(zip(features, gate[key], strict=True)) for key in ("importance", "variance")}
    return {**gate, "weights": terms, **by_feature}
