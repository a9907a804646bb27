"""Descriptions: one TOML format, read, checked and built; nothing runs here."""
