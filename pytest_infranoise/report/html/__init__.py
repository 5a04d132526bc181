"""A study's page as one HTML file that needs nothing else: no script, no request, no font."""

from pytest_infranoise.report.html.document import to_html

__all__ = ["to_html"]
