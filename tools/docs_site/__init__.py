"""Makes the documentation's site: hand-written pages of docs/, and a reference from the classes.

    make docs

`assemble` writes all sources into one folder, which Sphinx reads with docs/conf.py; nothing that is
generated is kept. What a page says comes from the classes: fields from `fencepost.wire.describe`,
purpose and history from the modules' docstrings, the rest from `fencepost.wire.api.facts` and the
broker's registry of handlers.

* `schema`: a message as a list of fields, with the versions each is there, and what versions change
* `prose`: docstrings and field docs as Markdown and HTML, with links
* `tables`: HTML of tables and of the strips that show versions
* `api_pages`, `record_pages`, `error_page`, `python_pages`: the pages, text by path
* `assemble`: which pages there are, and their source folder
* `docstrings`: docstrings for Sphinx's autodoc
"""
