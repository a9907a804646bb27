# SPDX-License-Identifier: Apache-2.0
"""Published figures and tables, simulated values beside them."""
