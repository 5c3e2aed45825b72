"""The paper's datasets: how each is read, drawn or prepared, and how its originals become our files."""
