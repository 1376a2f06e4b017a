"""How to install what an extra of this project brings: it is on no package index, so that pip finds it by no name."""

from importlib.metadata import PackageNotFoundError, requires

from packaging.requirements import Requirement


def installation(extra: str) -> str:
    """The command that installs the packages of an extra, with the versions that it allows.

    >>> installation("river")
    "pip install 'river<1,>=0.21'"
    """
    try:
        found = [Requirement(text) for text in requires("riparian") or ()]
    except PackageNotFoundError:  # run from a checkout that is not installed
        return f"pip install '.[{extra}]' in the checkout"
    of_it = [one for one in found if one.marker is not None and one.marker.evaluate({"extra": extra})]
    return " ".join(["pip install", *(f"'{one.name}{one.specifier}'" for one in of_it)])
