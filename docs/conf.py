"""Sphinx's settings. The pages come from tools/docs_site, which also runs Sphinx: `make docs`."""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))

from docs_site import docstrings

from fencepost import __version__

project = "Fencepost"
author = "The Fencepost authors"
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "index"
default_role = "code"  # docstrings have single backticks

html_theme = "furo"
html_title = f"Fencepost {__version__}"
html_static_path = [str(Path(__file__).resolve().parent / "_static")]
html_css_files = ["site.css"]
html_js_files = ["versions.js", "tables.js"]
html_copy_source = False
html_show_copyright = False

myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints = "signature"
python_use_unqualified_type_names = True
maximum_signature_line_length = 90


def setup(app: Any) -> None:
    """Docstrings have Markdown's tables."""
    app.connect("autodoc-process-docstring", docstrings.convert)
