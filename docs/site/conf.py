"""Sphinx's configuration of the site that make.py writes the pages of."""
import pathlib

_text = pathlib.Path(__file__).parent.joinpath("version.txt").read_text(encoding="utf-8")
project = "pyflow"
copyright = author = "The pyflow authors"
release = version = _text.strip()
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = f"pyflow {release}"
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
pygments_style = "default"
nitpicky = True
add_module_names = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
toc_object_entries = False
maximum_signature_line_length = 88
