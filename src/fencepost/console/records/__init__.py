"""Records of topics for pages: which are asked for, where they are read, and how they are shown."""
