"""The report of a run: one self-contained web page without scripts and external resources, or Markdown."""

from trainer.cli.report.markdown import markdown_report
from trainer.cli.report.page import report_page
from trainer.cli.report.source import Source

__all__ = ["Source", "markdown_report", "report_page"]
