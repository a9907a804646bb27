# SPDX-License-Identifier: Apache-2.0
"""Many runs over ranges of parameters: on this machine or a cluster, kept as they finish."""
