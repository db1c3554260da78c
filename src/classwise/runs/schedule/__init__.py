"""What is missing, how long it takes, and in which processes it is computed."""

from pathlib import Path

# What a build from nothing measured on an idle machine: rates, the speed of its cores, and the seconds of executing pages.
REFERENCE = Path(__file__).with_name("reference.json")
