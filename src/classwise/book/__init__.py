import sys

# In the processes of a build: jsonschema would compile a grammar of IRIs for a second, in each that imports altair or nbformat.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
