"""From the raw record of a run to tables, figures, pages and traces."""
