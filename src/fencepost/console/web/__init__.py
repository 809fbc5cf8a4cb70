"""The console over HTTP: routes made of the table of pages, and what keeps strangers out."""
