"""The pages, one module for each kind; `table` lists them."""
