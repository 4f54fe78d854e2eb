"""Layouts as what launches them: degrees as YAML and JSON, command lines of serving frameworks."""
