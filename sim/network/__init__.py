# SPDX-License-Identifier: Apache-2.0
"""Networks: dimensions, links, routes, ports and rings embedded in them."""
