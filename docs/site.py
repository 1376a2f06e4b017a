"""Hooks of mkdocs: CHANGELOG.md is a page of the site too, and old addresses lead to new ones."""

import json
import re
from pathlib import Path
from posixpath import relpath
from typing import Any

import yaml
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
CHANGES = "CHANGELOG.md"
REDIRECT = """<!doctype html>
<meta charset="utf-8">
<title>Moved</title>
<link rel="canonical" href="{page}">
<meta name="robots" content="noindex">
<noscript><meta http-equiv="refresh" content="0; url={page}"></noscript>
<script>
const there = new URL({anchors}[location.hash] || "{page}", location);
there.hash ||= location.hash;
location.replace(there);
</script>
<a href="{page}">This page has moved.</a>
"""


def on_files(files: Files, *, config: Any) -> Files:
    files.append(File.generated(config, CHANGES, abs_src_path=str(ROOT / CHANGES)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    uri = page.file.src_uri
    if uri == CHANGES:
        return re.sub(r"\]\((?:docs/|(?=README|CONTRIBUTING))", "](", markdown).replace("](README.md", "](index.md")
    return re.sub(rf"\]\((?:\.\./)+({re.escape(CHANGES)})", rf"]({'../' * uri.count('/')}\1", markdown)


def redirects() -> dict[str, dict[str, str]]:
    """For each old page the new places of its anchors, and of the page itself at the anchor ""."""
    places: dict[str, dict[str, str]] = {}
    for old, new in (yaml.safe_load((ROOT / "docs" / "redirects.yaml").read_text(encoding="utf-8")) or {}).items():
        page, _, anchor = old.partition("#")
        places.setdefault(page, {})[anchor] = new
    return places


def on_post_build(*, config: Any) -> None:
    for old, places in redirects().items():
        address, folder = old.replace(".md", ".html"), str(Path(old).parent)
        at = {anchor: relpath(new, folder).replace(".md", ".html") for anchor, new in places.items()}
        anchors = json.dumps({f"#{anchor}": new for anchor, new in at.items() if anchor})
        target = Path(config["site_dir"], address)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(REDIRECT.format(page=at[""], anchors=anchors), encoding="utf-8")
