"""The system simulator: jobs on networks of endpoints, from parameters to a record of the run."""
