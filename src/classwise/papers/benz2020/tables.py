"""The settings and the misprints of Benz et al. 2020; it prints no numbers."""

from pathlib import Path

from classwise.papers.published import Tables

TABLES = Tables(folder=Path(__file__).parent, readers={})
