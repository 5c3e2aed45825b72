"""Linear graph filters (Sections 2.1 and 3): one small file each."""
