# SPDX-License-Identifier: Apache-2.0
"""From the raw record of a run to tables, figures, pages and traces."""
