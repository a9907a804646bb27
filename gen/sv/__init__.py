# SPDX-License-Identifier: Apache-2.0
"""SystemVerilog as an engineer would write it, from the statements of the design."""
