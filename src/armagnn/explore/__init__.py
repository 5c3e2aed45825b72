"""Looking at what was trained."""
