"""Makes what a release consists of, and checks it: `make wheels`, `make release`.

Nothing is uploaded. docs/RELEASING.md has the steps around it.
"""
