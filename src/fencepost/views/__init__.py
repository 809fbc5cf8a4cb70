"""What there is to show, as values: for the command line, a console in the browser, and tests.

A view is a frozen value; the class of each says what its fields are and in which units. Functions
beside it make it of what clients return; where that takes several requests they are conversations,
so that a blocking client and an asyncio one can carry them out. `fencepost.views.rendering` makes
documents (for `json_documents`), schemas and text `tables` of any view,
`fencepost.views.epochs_drawing` an SVG of logs.
"""
