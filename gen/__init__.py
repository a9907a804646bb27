# SPDX-License-Identifier: Apache-2.0
"""From an Amaranth component to Verilog, to a compiled simulation model, to synthesis figures."""
