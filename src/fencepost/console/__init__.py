"""The console: what there is to see of a Kafka cluster, as pages in a browser, JSON and text.

A page is a value (`page.Page`) that one function makes of what the cluster says. `html`, `text` and
the JSON under `/api` show the same value; `web` serves it, `sampling` looks at the cluster in the
background. Needs the extra `console`.
"""
