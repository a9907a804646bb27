"""Machines by name: tables as nccl-tests prints them; what a measurement adds to data sheets."""
