"""Sphinx: furo, Markdown by MyST, numpydoc, a gallery that runs the scripts of examples/."""

import os

os.environ.setdefault("MPLBACKEND", "Agg")

import weald

project, author, copyright = "weald", "the weald developers", "the weald developers"
release = version = weald.__version__
extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "**/GALLERY_HEADER.rst"]
templates_path = ["_templates"]
suppress_warnings = ["config.cache"]  # the gallery is configured with a function

html_theme = "furo"
html_title = f"weald {release}"
html_static_path = ["_static"]
html_css_files = ["weald.css"]
html_show_sourcelink = False

myst_enable_extensions = ["dollarmath", "deflist", "fieldlist"]
myst_heading_anchors = 3
numpydoc_show_class_members = False
autodoc_typehints = "none"
autodoc_class_signature = "mixed"


def gallery_style(gallery_conf, fname):
    """Set the look of every figure."""
    import matplotlib as mpl

    mpl.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": "medium"})


sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"readme_figure\.py",
    "within_subsection_order": "FileNameSortKey",
    "reset_modules": ("matplotlib", gallery_style),
    "remove_config_comments": True,
    "show_memory": False,
    "min_reported_time": 60,
    "write_computation_times": False,
}
