"""A run as one self-contained web page: no script, nothing loaded from elsewhere."""

from trainer.cli.report.page import report_page

__all__ = ["report_page"]
