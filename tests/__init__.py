"""All tests; a package so that one suite may use another's fakes."""
