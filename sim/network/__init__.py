"""Networks: dimensions composed into nodes, links and the routes between them."""
