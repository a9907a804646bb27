"""What goes to others beside the Verilog: file list, C header, constraints, bench, manual."""
