# SPDX-License-Identifier: Apache-2.0
"""The compiled event kernel: instances, steps, resources and time."""
