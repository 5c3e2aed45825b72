"""Fixed points and linear systems: each solver returns its solution and how it got there."""
