"""From the raw record of a run to tables, figures and traces."""
