# SPDX-License-Identifier: Apache-2.0
"""Descriptions: one TOML format, read, checked and built; nothing runs here."""
