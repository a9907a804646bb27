"""Networks: dimensions, links, routes, ports and rings embedded in them."""
