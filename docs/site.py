"""A hook of mkdocs: pages that stand beside README.md, for GitHub, are pages of the site too, and links follow them."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
BESIDE = ("CONTRIBUTING.md", "CHANGELOG.md")


def on_files(files: Files, *, config: Any) -> Files:
    for name in BESIDE:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    if page.file.src_uri in BESIDE:
        return re.sub(r"\]\((?:docs/|(?=README))", "](", markdown).replace("](README.md", "](index.md")
    return re.sub(rf"\]\(\.\./({'|'.join(map(re.escape, BESIDE))})", r"](\1", markdown)
