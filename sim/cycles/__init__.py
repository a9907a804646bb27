# SPDX-License-Identifier: Apache-2.0
"""Cycle models of the engines: the RTL's timing without its data."""
