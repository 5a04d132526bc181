"""What a written report says, as data: HTML and Markdown are made of it and compute nothing."""

from pytest_infranoise.report.page.make import make_page
from pytest_infranoise.report.page.model import Page

__all__ = ["Page", "make_page"]
