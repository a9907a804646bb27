# SPDX-License-Identifier: Apache-2.0
"""cocotb test benches on the emitted Verilog; they run from a checkout and are not in the wheel.

A bench is a folder: ``cocotb_<top>.py`` runs inside the HDL simulator, ``test_<top>.py`` is the
pytest file that builds the design and calls :func:`tb.runner.simulate`. ``foldwire tb`` lists them.
"""
