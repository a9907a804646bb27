# SPDX-License-Identifier: Apache-2.0
"""Machines by name: tables as nccl-tests prints them; what a measurement adds to data sheets."""
