"""Files handed over beside the Verilog: file list, C header, constraints, bench, manual."""
