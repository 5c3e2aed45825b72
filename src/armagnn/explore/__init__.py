"""Looking at filters and at what was trained."""

from armagnn.explore.explorer_page import explorer_page

__all__ = ["explorer_page"]
