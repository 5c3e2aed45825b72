"""Tables of nodes and edges, as people have them, made into datasets."""
