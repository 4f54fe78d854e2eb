"""Reports: a finished run as one HTML file that opens offline, prints, and can be read without seeing it."""

from .report import Report as Report
from .report import make_report as make_report
