"""A Lightning callbacks package; path, import and class_path are the same."""
