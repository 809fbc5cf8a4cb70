"""One module per API; importing it registers its handler and its versions."""
