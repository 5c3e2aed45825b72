"""How Sphinx builds the site: `make docs` writes it to build/docs, and every warning is an error."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]  # the sources next to this file, whatever is installed

from site_parts import inventory  # noqa: E402

import armagnn  # noqa: E402

project, author, copyright = "armagnn", "the authors of armagnn", "the authors of armagnn"
version = release = armagnn.__version__
language = "en"
html_math_renderer = "mathml"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.intersphinx",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "site_parts",
]
exclude_patterns = ["gallery/**/*.ipynb", "gallery/**/*.py", "gallery/sg_execution_times.rst"]
templates_path: list[str] = []

# ----------------------------------------------------------------------------------------------------------- Markdown
myst_enable_extensions = ["dollarmath", "deflist", "colon_fence", "attrs_inline"]
myst_heading_anchors = 4
suppress_warnings = ["myst.xref_ambiguous"]
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"

# ---------------------------------------------------------------------------------------------------------- docstrings
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autosummary_generate = False  # the tables point to entries on the same page
napoleon_google_docstring, napoleon_numpy_docstring = True, False
napoleon_use_rtype = False
napoleon_use_ivar = True

# --------------------------------------------------------------------------------------------- pages of other projects
# The names that our pages use, from the text files next to this one: the site builds without a network.
intersphinx_mapping = {
    name: (address, inventory(HERE / "inventories" / f"{name}.txt", HERE.parent / "build" / "inventories"))
    for name, address in {
        "torch": "https://docs.pytorch.org/docs/stable/",
        "pyg": "https://pytorch-geometric.readthedocs.io/en/latest/",
        "sklearn": "https://scikit-learn.org/stable/",
    }.items()
}

# ------------------------------------------------------------------------------- links to other sites: `make links`
linkcheck_timeout, linkcheck_retries, linkcheck_workers = 30, 2, 4
linkcheck_anchors_ignore_for_url = [r"https://github\.com/"]  # a script writes these

# ------------------------------------------------------------------------------------------------------------- gallery
sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples" / "gallery"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"/\w+\.py",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "copyfile_regex": r"",
    "doc_module": (),
    "backreferences_dir": None,
    "image_scrapers": ("matplotlib",),
    "matplotlib_animations": False,
    "capture_repr": ("_repr_html_",),
    "within_subsection_order": "FileNameSortKey",
    "thumbnail_size": (320, 220),
    "first_notebook_cell": "%matplotlib inline",
    "reset_modules": ("site_parts.before_example",),
}

# --------------------------------------------------------------------------------------------------------------- pages
html_theme = "furo"
html_title = "armagnn"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
pygments_style, pygments_dark_style = "a11y-high-contrast-light", "a11y-high-contrast-dark"
