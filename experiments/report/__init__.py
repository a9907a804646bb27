# SPDX-License-Identifier: Apache-2.0
"""``docs/results`` and the figures of the documents, written by one command: ``make report``."""
