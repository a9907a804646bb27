"""SystemVerilog as an engineer would write it, from the statements of the design."""
