"""Looking at filters and at what was trained."""

from armagnn.explore.explorer_page import explorer_page
from armagnn.explore.widget import explorer_widget

__all__ = ["explorer_page", "explorer_widget"]
