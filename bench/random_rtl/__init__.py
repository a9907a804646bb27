# SPDX-License-Identifier: Apache-2.0
"""Systems of RTL drawn by a seed, and what goes wrong in them: the parts of `bench.rtl_random`."""
