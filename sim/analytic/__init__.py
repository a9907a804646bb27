# SPDX-License-Identifier: Apache-2.0
"""Closed-form models of the papers: traffic, ceilings, LogGP, collectives driven by cores."""
