# SPDX-License-Identifier: Apache-2.0
"""Event simulation of training systems: lowering of plans, the kernel, the record of a run."""
