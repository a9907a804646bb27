# SPDX-License-Identifier: Apache-2.0
"""Systems: networks, workloads, events, cycle models, RTL in the loop, and results."""
