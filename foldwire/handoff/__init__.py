# SPDX-License-Identifier: Apache-2.0
"""Files handed over beside the Verilog: file list, C header, constraints, bench, manual."""
