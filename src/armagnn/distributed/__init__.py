"""Stacks over the ranks of a process group (Section 4.1)."""
