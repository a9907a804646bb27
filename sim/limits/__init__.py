# SPDX-License-Identifier: Apache-2.0
"""Lower bounds on the time of a collective, in closed form, each with its proof."""
